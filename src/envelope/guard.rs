//! What a body is recognised by when it comes again under another id.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::event::{BodyGuard, Event, EventKey, Fingerprint};

/// Ends the scope of guards. No consumer's name can hold it, so that no event id meets a guard.
const GUARD_SCOPE: &str = "#body";

/// The guard of a body in a dedup scope; `None` for a delivery without events, which has no effect to
/// guard.
#[must_use]
pub fn body_guard(consumer: &str, body: &[u8], events: &[Event]) -> Option<BodyGuard> {
    if events.is_empty() {
        return None;
    }
    let mut ids = Sha256::new();
    for event in events {
        ids.update((event.key.event_id.len() as u64).to_be_bytes());
        ids.update(event.key.event_id.as_bytes());
    }
    let key = EventKey {
        consumer: Arc::from([consumer, GUARD_SCOPE].concat()),
        event_id: Arc::from(hex::encode(Sha256::digest(body))),
    };
    Some(BodyGuard { key, ids: Fingerprint(ids.finalize().into()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::JsonText;

    fn guard(body: &[u8], ids: &[&str]) -> Option<BodyGuard> {
        let events: Vec<_> = ids
            .iter()
            .map(|id| Event {
                key: EventKey { consumer: "shop".into(), event_id: (*id).into() },
                event_type: "".into(),
                occurred_at: None,
                payload: JsonText::null(),
                data: JsonText::null(),
                order: None,
            })
            .collect();
        body_guard("shop", body, &events)
    }

    #[test]
    fn a_guard_knows_the_body_and_the_ids_it_came_under() {
        let first = guard(b"{}", &["a", "b"]).expect("a guard");
        assert_eq!(guard(b"{}", &["a", "b"]), Some(first.clone()));
        let other_ids = guard(b"{}", &["ab"]).expect("a guard");
        assert_eq!(other_ids.key, first.key);
        assert_ne!(other_ids.ids, first.ids);
        assert_ne!(guard(b"{} ", &["a", "b"]).expect("a guard").key, first.key);
        assert_eq!(guard(b"[]", &[]), None);
    }
}
