//! What the core works on: deliveries, events and their keys, valid by construction.
//!
//! Nothing here parses input: `envelope.rs` turns verified bytes into these values and refuses
//! what does not fit. Nothing here knows HTTP or SQL.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::json_scan::JsonStr;
use crate::raw_headers::RawHeaders;
use crate::source::Source;

/// Longest event id accepted, in bytes. Well under PostgreSQL's 2704-byte limit of a btree entry,
/// with room for the consumer beside it.
pub const MAX_EVENT_ID_BYTES: usize = 1024;

/// Longest `Idempotency-Key` accepted, in characters (Stripe's limit).
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 255;

/// The identity that may take effect once: the dedup scope and the id the sender gave.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    pub consumer: Arc<str>,
    pub event_id: Arc<str>,
}

impl fmt::Debug for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.consumer, self.event_id)
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A slice of a received body that is known to be one complete JSON value in valid UTF-8,
/// kept exactly as it was sent (`1.10` stays `1.10`, a 30-digit id keeps its digits).
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Bytes);

impl JsonText {
    /// Checks that `bytes` is one JSON value.
    ///
    /// # Errors
    /// When it is not JSON, or not UTF-8.
    pub fn parse(bytes: Bytes) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<&RawValue>(&bytes)?;
        Ok(Self(bytes))
    }

    /// The part of `whole` that `raw` was borrowed from, without copying.
    #[must_use]
    pub fn slice_of(whole: &Bytes, raw: &RawValue) -> Self {
        Self(whole.slice_ref(raw.get().as_bytes()))
    }

    /// The part of `whole` that `part` was borrowed from, without copying or checking again.
    #[must_use]
    pub fn part_of(whole: &Bytes, part: JsonStr<'_>) -> Self {
        Self(whole.slice_ref(part.as_str().as_bytes()))
    }

    /// The JSON value `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// The JSON text, as sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("constructed from text that a JSON parser accepted")
    }

    /// Reads the text as `T`.
    ///
    /// # Errors
    /// When the JSON has another shape.
    pub fn read<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl fmt::Debug for JsonText {
    /// Bodies never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

/// One event of a delivery.
#[derive(Clone, Debug)]
pub struct Event {
    pub key: EventKey,
    /// The event's type; empty when the source names none.
    pub event_type: Arc<str>,
    /// When it happened, in the sender's words; `None` when the source does not say where.
    pub occurred_at: Option<DateTime<Utc>>,
    /// The event's whole JSON: the body, or its item of a body that carries many.
    pub payload: JsonText,
    /// The part of `payload` that the source's `data` points at.
    pub data: JsonText,
    /// Where the event stands in its entity's history, for sources with `order_by`.
    pub order: Option<OrderKey>,
}

/// The position of an event among the changes of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey {
    pub entity: Arc<str>,
    /// A version number, or a time in microseconds since the epoch.
    pub sequence: i64,
}

/// A valid `Idempotency-Key`: 1 to 255 printable ASCII characters, quotes removed.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// Wraps a value that `envelope` has checked already.
    pub fn new_unchecked(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, without copying it.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// SHA-256 of method, request target and raw body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub [u8; 32]);

/// An `Idempotency-Key` that the sender sent, with what it was sent for.
#[derive(Clone, Debug)]
pub struct ExplicitKey {
    pub key: IdempotencyKey,
    pub fingerprint: Fingerprint,
}

/// What a body is recognised by when it comes again, for sources that guard against replays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyGuard {
    /// The digest of the body, in a scope that no event has.
    pub key: EventKey,
    /// The ids of the events that came in it.
    pub ids: Fingerprint,
}

/// The request as it came: what is verified, fingerprinted, kept and relayed.
#[derive(Clone)]
pub struct RawRequest {
    /// Path and query, as sent.
    pub target: Arc<str>,
    pub headers: RawHeaders,
    pub body: Bytes,
}

impl RawRequest {
    /// The values of the header `name` (lower case), in order of arrival.
    pub fn header_values<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r [u8]> {
        self.headers.values(name)
    }
}

impl fmt::Debug for RawRequest {
    /// Neither body nor header values reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawRequest({}, {} headers, {} bytes)", self.target, self.headers.len(), self.body.len())
    }
}

/// One verified and parsed request: the unit of a transaction and of an answer.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Ours, version 7: names the delivery in the ledger, the log and the answer.
    pub id: Uuid,
    pub source: Arc<Source>,
    /// At least one.
    pub events: Vec<Event>,
    /// The body carried a list: the answer then names each event.
    pub is_batch: bool,
    /// Present only when the sender sent the header.
    pub explicit_key: Option<ExplicitKey>,
    /// Present only when the source guards against replays (`replay_guard`).
    pub guard: Option<BodyGuard>,
    pub request: RawRequest,
    pub received_at: DateTime<Utc>,
}
