//! Late repetitions seldom come alone: a sender that had no answer in time sends all again.
//!
//! To read a row back costs a round trip, whether it is for one event or for fifty. So while late repetitions
//! come, rows whose entries in memory linger (`recent.rs`) are read along with them, of each shard of the
//! memory the oldest first: what is sent again is mostly sent in the order it first came in. Decides about
//! speed alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::event::EventKey;
use crate::inbox::answers;
use crate::inbox::recent::Recent;
use crate::store::StoredEvent;

/// Most rows that are read along.
const MOST: usize = 64;

/// So many late repetitions come within this time, so many rows are read along with the next.
const WITHIN: Duration = Duration::from_secs(1);

/// What one writer expects to be asked for.
pub(super) struct Foresight {
    recent: Arc<Recent>,
    seen: usize,
    since: Instant,
}

/// A row to be read along.
pub(super) struct Expected {
    pub hash: u64,
    pub key: EventKey,
}

impl Foresight {
    pub fn new(recent: Arc<Recent>) -> Self {
        Self { recent, seen: 0, since: Instant::now() }
    }

    /// What to read along with so many late repetitions.
    pub fn along_with(&mut self, late: usize) -> Vec<Expected> {
        if late == 0 {
            return Vec::new();
        }
        let now = Instant::now();
        if now.duration_since(self.since) > WITHIN {
            (self.seen, self.since) = (0, now);
        }
        let most = self.seen.min(MOST);
        self.seen += late;
        self.recent.take_lingering(most, now)
    }

    /// Remembers what was read by a statement that began then.
    pub fn remember(&self, read: impl IntoIterator<Item = (Expected, StoredEvent)>, began: Instant) {
        for (Expected { hash, key }, row) in read {
            if answers::can_be_remembered(&row) {
                self.recent.remember(hash, &key, row, began);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::outcome::EventState;
    use crate::inbox::recent::TRUSTED_FOR;
    use crate::store::Age;

    #[tokio::test(start_paused = true)]
    async fn as_many_are_read_along_as_came_lately() {
        let recent = Arc::new(Recent::new());
        let mut foresight = Foresight::new(recent.clone());
        let row = StoredEvent {
            source: "shop".into(),
            state: EventState::Applied,
            status: 200,
            reply: None,
            fingerprint: None,
            age: Age::AnswerLive,
            answer_left: Duration::from_secs(60),
        };
        for hash in 0..1_000 {
            let key = EventKey { consumer: "shop".into(), event_id: format!("evt_{hash}").into() };
            recent.remember(hash, &key, row.clone(), Instant::now());
        }
        tokio::time::advance(TRUSTED_FOR).await;
        let mut along_with = |late| foresight.along_with(late).len();
        assert_eq!([0, 1, 0, 2, 5, 100, 1].map(&mut along_with), [0, 0, 0, 1, 3, 8, MOST]);
        tokio::time::advance(WITHIN + Duration::from_millis(1)).await;
        assert_eq!([1, 1].map(&mut along_with), [0, 1], "it was long ago");
    }
}
