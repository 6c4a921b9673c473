//! Which event a message carries on: said in its headers, and found by them.
//!
//! A forwarded message names its event's source and id. It is found without an index of its own, because its
//! id was made near the time at which the event was processed. Knows no SQL.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{MessageRecord, OutboxStore};
use crate::clock;
use crate::store::{EventRecord, StoreError};

/// How far an event's message may lie from the event's own time: our clock, by which ids are made, may be
/// off from the database's, and a batch takes its time.
const NEAR_ITS_EVENT: chrono::TimeDelta = chrono::TimeDelta::minutes(10);

/// Which event messages were written for.
#[derive(Clone, Copy, Debug)]
pub struct OriginFilter<'a> {
    pub source: &'a str,
    pub event_id: &'a str,
    /// When the event was processed.
    pub processed_at: DateTime<Utc>,
    pub limit: u32,
}

impl OriginFilter<'_> {
    /// Between which ids their messages lie.
    pub(in crate::store) fn ids(&self) -> (Uuid, Uuid) {
        let at = |time: Option<DateTime<Utc>>| clock::first_id_at(time.unwrap_or(self.processed_at));
        (
            at(self.processed_at.checked_sub_signed(NEAR_ITS_EVENT)),
            at(self.processed_at.checked_add_signed(NEAR_ITS_EVENT)),
        )
    }

    /// The event's id as its messages carry it.
    pub(in crate::store) fn carried_id(&self) -> String {
        header_safe(self.event_id)
    }
}

/// Messages of one event that are shown: one for each forward handler.
const MOST_OF_AN_EVENT: u32 = 100;

/// What carries events on, each with the source whose event it is.
///
/// # Errors
/// When the outbox cannot be read.
pub async fn carried_on(
    store: &dyn OutboxStore,
    events: &[EventRecord],
) -> Result<Vec<(String, MessageRecord)>, StoreError> {
    let mut carried = Vec::new();
    for event in events {
        let origin = OriginFilter {
            source: &event.source,
            event_id: &event.key.event_id,
            processed_at: event.processed_at,
            limit: MOST_OF_AN_EVENT,
        };
        let found = store.messages_of_event(&origin).await?;
        carried.extend(found.into_iter().map(|message| (event.source.clone(), message)));
    }
    Ok(carried)
}

/// Tells a destination, and us, which source an event came from.
pub const SOURCE_HEADER: &str = "hooklatch-source";
/// Its id there. What HTTP does not allow in a header is percent-encoded, `%` too.
pub const EVENT_ID_HEADER: &str = "hooklatch-event-id";

/// The headers of a message that a forward handler writes, as a JSON object.
#[must_use]
pub fn origin_headers(source: &str, event_id: &str) -> String {
    serde_json::json!({ SOURCE_HEADER: source, EVENT_ID_HEADER: header_safe(event_id) }).to_string()
}

/// Text as a header can carry it: visible ASCII as it is, all else percent-encoded.
fn header_safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            safe.push(char::from(byte));
        } else {
            let _infallible = write!(safe, "%{byte:02X}");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::read_headers;
    use super::*;

    #[test]
    fn an_event_id_travels_in_a_header_whatever_it_is_made_of() {
        assert_eq!(header_safe("evt_1:a/b"), "evt_1:a/b");
        assert_eq!(header_safe("50% \u{e9}"), "50%25%20%C3%A9");
        for id in ["a\"b\\c", " ", "\u{1f600}"] {
            let headers = read_headers(&origin_headers("shop", id));
            assert!(headers.contains(&(EVENT_ID_HEADER.to_owned(), header_safe(id))), "{headers:?}");
            assert!(header_safe(id).bytes().all(|byte| byte.is_ascii_graphic()), "{id:?}");
        }
    }
}
