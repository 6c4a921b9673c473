//! What travels beside a message's body to a broker: the same headers for each kind of broker.
//!
//! A message's own headers, those of its destination, and what the relay says of it. Names are kept in
//! lower case: consumers compare them so.

use std::collections::BTreeMap;

use reqwest::header::HeaderMap;

use super::http::{HOPS_HEADER, TRACEPARENT};
use crate::store::outbox::{Message, UNREADABLE_HEADERS};

/// Tells consumers which messages are about one thing.
pub const AGGREGATE_HEADER: &str = "hooklatch-aggregate-id";
/// The message's event type.
pub const EVENT_TYPE_HEADER: &str = "hooklatch-event-type";
/// The message's id, where a broker has no property of its own for it.
pub const MESSAGE_ID_HEADER: &str = "hooklatch-message-id";

/// The relay's own word: a message cannot set these.
const OWN_LABELS: [&str; 5] =
    [HOPS_HEADER, AGGREGATE_HEADER, EVENT_TYPE_HEADER, MESSAGE_ID_HEADER, "content-type"];

/// The headers of a message.
///
/// # Errors
/// When a header of the message cannot be sent.
pub fn labels(message: &Message, configured: &HeaderMap) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for (name, value) in &message.headers {
        if name == UNREADABLE_HEADERS {
            return Err(format!("its headers are {UNREADABLE_HEADERS}"));
        }
        let lower = name.to_ascii_lowercase();
        if OWN_LABELS.contains(&lower.as_str()) {
            return Err(format!("the message's header `{name}` is the relay's to set"));
        }
        labels.insert(lower, value.clone());
    }
    for (name, value) in configured {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        labels.insert(name.as_str().to_owned(), value);
    }
    if let Some(traceparent) = &message.traceparent {
        labels.insert(TRACEPARENT.to_owned(), traceparent.clone());
    }
    labels.insert(HOPS_HEADER.to_owned(), message.hops.saturating_add(1).to_string());
    if let Some(aggregate) = &message.aggregate_id {
        labels.insert(AGGREGATE_HEADER.to_owned(), aggregate.clone());
    }
    if !message.event_type.is_empty() {
        labels.insert(EVENT_TYPE_HEADER.to_owned(), message.event_type.clone());
    }
    Ok(labels)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    pub(in crate::outbox) fn message(event_type: &str, aggregate_id: Option<&str>) -> Message {
        Message {
            id: uuid::Uuid::nil(),
            aggregate_id: aggregate_id.map(str::to_owned),
            event_type: event_type.to_owned(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"{}"),
            traceparent: None,
            hops: 0,
            attempts: 1,
            age: Duration::ZERO,
        }
    }

    #[test]
    fn a_message_carries_its_own_headers_and_the_relays_word() {
        let mut sent = message("paid", Some("7"));
        sent.hops = 2;
        sent.headers = vec![("X-Tenant".into(), "a".into())];
        sent.traceparent = Some("00-1".into());
        let mut configured = HeaderMap::new();
        configured.insert("x-env", "test".parse().expect("a value"));
        let labels: Vec<_> = labels(&sent, &configured).expect("fits").into_iter().collect();
        let expected = [
            ("hooklatch-aggregate-id", "7"),
            ("hooklatch-event-type", "paid"),
            ("hooklatch-hops", "3"),
            ("traceparent", "00-1"),
            ("x-env", "test"),
            ("x-tenant", "a"),
        ];
        assert_eq!(labels, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_message_cannot_set_the_relays_word() {
        let mut forged = message("paid", None);
        forged.headers = vec![("Hooklatch-Hops".into(), "0".into())];
        assert!(labels(&forged, &HeaderMap::new()).expect_err("the relay's").contains("Hooklatch-Hops"));
    }
}
