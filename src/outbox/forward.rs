//! `forward = "NAME"`: what a handler of a source writes into the outbox.
//!
//! The message is the event as it came: the raw body for a delivery of one event, the item's own text
//! for one of many. It is written in the transaction of the event, when the event's other handlers
//! have succeeded.

use std::borrow::Cow;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::http::{HOPS_HEADER, TRACEPARENT};
use crate::clock;
use crate::event::{MAX_EVENT_ID_BYTES, RawRequest};
use crate::json_pointer::JsonPointer;
use crate::json_scan::{JsonKind, JsonStr};
use crate::store::outbox::origin_headers;
use crate::store::{FreshEvent, NewMessage};

/// What an item of a body is, and a body whose sender did not say.
const JSON: &str = "application/json";

/// A handler that sends events on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub destination: Arc<str>,
    /// Where the aggregate's id is in the event; `None`: where `order_by` says the entity is.
    pub aggregate: Option<JsonPointer>,
}

/// A message about to be written.
#[derive(Debug)]
pub struct Outgoing<'a> {
    id: Uuid,
    destination: &'a str,
    aggregate_id: Option<Cow<'a, str>>,
    event_type: &'a str,
    content_type: &'a str,
    headers: String,
    payload: &'a [u8],
    traceparent: Option<&'a str>,
    hops: u16,
}

impl Forward {
    /// The message that carries an event on, under a new id.
    #[must_use]
    pub fn message<'a>(&'a self, fresh: FreshEvent<'a>) -> Outgoing<'a> {
        let FreshEvent { event, delivery } = fresh;
        let (payload, content_type) = if delivery.is_batch {
            (event.payload.as_str().as_bytes(), JSON)
        } else {
            (&*delivery.request.body, header(&delivery.request, "content-type").unwrap_or(JSON))
        };
        let aggregate_id = match &self.aggregate {
            Some(pointer) => aggregate_at(pointer, event.payload.as_str()),
            None => event.order.as_ref().map(|order| Cow::Borrowed(&*order.entity)),
        };
        Outgoing {
            id: clock::new_id(),
            destination: &self.destination,
            aggregate_id: aggregate_id.filter(|id| !id.is_empty()).map(storable),
            event_type: &event.event_type,
            content_type,
            headers: origin_headers(&delivery.source.name, &event.key.event_id),
            payload,
            traceparent: header(&delivery.request, TRACEPARENT).filter(|text| is_traceparent(text)),
            hops: header(&delivery.request, HOPS_HEADER).and_then(|text| text.parse().ok()).unwrap_or(0),
        }
    }
}

impl Outgoing<'_> {
    /// As the store takes it.
    #[must_use]
    pub fn as_new(&self) -> NewMessage<'_> {
        NewMessage {
            id: self.id,
            destination: self.destination,
            aggregate_id: self.aggregate_id.as_deref(),
            event_type: self.event_type,
            content_type: self.content_type,
            headers: &self.headers,
            payload: self.payload,
            traceparent: self.traceparent,
            hops: self.hops,
        }
    }
}

/// A text or an integer; whatever else stands there names no aggregate.
fn aggregate_at<'a>(pointer: &JsonPointer, event: &'a str) -> Option<Cow<'a, str>> {
    let found = pointer.find(JsonStr::check(event).ok()?)?;
    match found.kind() {
        JsonKind::String => found.text(),
        JsonKind::Number => found.integer().map(Cow::Borrowed),
        _ => None,
    }
}

/// Ids that a database could not hold stand as their hash: their order is kept all the same.
fn storable(id: Cow<'_, str>) -> Cow<'_, str> {
    if id.len() <= MAX_EVENT_ID_BYTES && !id.contains('\0') {
        return id;
    }
    Cow::Owned(format!("sha256:{}", hex::encode(Sha256::digest(id.as_bytes()))))
}

/// The value of a header that was sent once and is plain text.
fn header<'r>(request: &'r RawRequest, name: &'r str) -> Option<&'r str> {
    let mut values = request.header_values(name);
    let value = values.next().filter(|_| values.next().is_none())?;
    std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| matches!(byte, b' '..=b'~')))
}

/// `version-trace id-parent id-flags`, in lower-case hex (W3C Trace Context).
fn is_traceparent(text: &str) -> bool {
    const LENGTHS: [usize; 4] = [2, 32, 16, 2];
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() >= LENGTHS.len()
        && parts.iter().zip(LENGTHS).all(|(part, length)| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_is_a_text_or_an_integer() {
        let event = r#"{"a": "order-1", "n": 123456789012345678901, "x": 1.5, "o": {}, "z": null}"#;
        let at = |pointer: &str| aggregate_at(&JsonPointer::parse(pointer).expect("a pointer"), event);
        assert_eq!(at("/a").as_deref(), Some("order-1"));
        assert_eq!(at("/n").as_deref(), Some("123456789012345678901"));
        for nothing in ["/x", "/o", "/z", "/absent"] {
            assert_eq!(at(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn ids_that_cannot_be_stored_are_told_apart_by_their_hash() {
        assert_eq!(storable("order-1".into()), "order-1");
        let (one, other) = ("a\0b", "a".repeat(MAX_EVENT_ID_BYTES + 1));
        assert!(storable(one.into()).starts_with("sha256:"));
        assert_ne!(storable(one.into()), storable(other.into()));
    }

    #[test]
    fn only_a_trace_context_is_carried_on() {
        assert!(is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        for text in ["", "00", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-1-2-3", "----"]
        {
            assert!(!is_traceparent(text), "{text}");
        }
    }
}
