//! What stands in the store beside the inbox's hot path: dead letters, the ledger, what retention deletes and
//! which migrations have run, as operators and their commands read it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::DeathCause;
use crate::event::EventKey;
use crate::inbox::outcome::{EventState, Outcome};
use crate::raw_headers::RawHeaders;

/// A dead letter, with the bytes as they came.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub id: Uuid,
    pub key: EventKey,
    pub source: String,
    pub event_type: String,
    pub cause: DeathCause,
    pub reason: String,
    pub attempts: u32,
    pub target: String,
    pub headers: RawHeaders,
    pub body: Bytes,
    pub received_at: DateTime<Utc>,
    pub died_at: DateTime<Utc>,
}

/// Which dead letters to read.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    pub source: Option<String>,
    pub event_id: Option<String>,
    pub id: Option<Uuid>,
    /// Ids are time-ordered: a page starts after the last id of the one before.
    pub after: Option<Uuid>,
    pub limit: u32,
}

/// A row of `processed_events`, as an operator sees it.
#[derive(Clone, Debug)]
pub struct EventRecord {
    pub key: EventKey,
    pub source: String,
    pub event_type: String,
    pub state: EventState,
    pub status: u16,
    pub occurred_at: Option<DateTime<Utc>>,
    pub processed_at: DateTime<Utc>,
}

/// A line of the ledger: one event of a delivery, or a delivery that was refused before its
/// events were known.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    pub delivery_id: Uuid,
    /// The event's place in the delivery, from 0.
    pub ordinal: u32,
    pub received_at: DateTime<Utc>,
    pub source: Arc<str>,
    /// `None`: not known when the delivery was refused.
    pub event_id: Option<Arc<str>>,
    pub event_type: Option<Arc<str>>,
    pub idempotency_key: Option<Arc<str>>,
    pub outcome: Outcome,
    pub status: u16,
    pub duration: Duration,
    pub body_bytes: u32,
    pub peer: Option<Arc<str>>,
    /// Why, in words an operator can act on; for outcomes that need one.
    pub reason: Option<String>,
    /// Name and value, where it helps to find the cause; without what authenticates the sender.
    pub headers: Vec<(String, String)>,
}

/// Which ledger entries to read.
#[derive(Clone, Debug, Default)]
pub struct LedgerFilter {
    pub source: Option<String>,
    pub event_id: Option<String>,
    /// One of these; empty: any.
    pub outcomes: Vec<Outcome>,
    pub since: Option<DateTime<Utc>>,
    /// Delivery ids are time-ordered: a page starts before the last id of the one before.
    pub before: Option<Uuid>,
    pub limit: u32,
}

/// What retention deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prunable {
    ProcessedEvents,
    IdempotencyKeys,
    DeadLetters,
    Deliveries,
    /// Messages that were sent; others are never deleted by age.
    OutboxSent,
}

impl Prunable {
    pub const ALL: [Self; 5] =
        [Self::ProcessedEvents, Self::IdempotencyKeys, Self::DeadLetters, Self::Deliveries, Self::OutboxSent];

    /// The table's name, and the key under `[retention]`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProcessedEvents => "processed_events",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::DeadLetters => "dead_letters",
            Self::Deliveries => "deliveries",
            Self::OutboxSent => "outbox_sent",
        }
    }
}

/// One migration, as `hooklatch migrate --status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    pub name: String,
    /// When the database ran it; `None`: it is pending.
    pub applied_at: Option<DateTime<Utc>>,
    /// False: the database has it, this program does not. The schema is newer.
    pub known: bool,
}
