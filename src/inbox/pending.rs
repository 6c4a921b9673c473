//! The wait for an answer: until it comes, or there is a reason not to wait any longer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::outcome::Answer;
use super::writer::Settled;
use super::{Marks, Shared, answers};

/// How often a waiting delivery looks whether its key is being processed elsewhere, once
/// `inflight_wait` is over.
const CONFLICT_CHECK_EVERY: Duration = Duration::from_millis(250);

/// What becomes of a delivery that was handed to the inbox.
pub(crate) enum HandedOver {
    /// All is said.
    Answered(Answer),
    /// It is processed, whether or not anybody waits for the answer.
    Waits(Pending),
}

/// A delivery that waits for its answer.
pub(crate) struct Pending {
    pub(super) inbox: Arc<Shared>,
    pub(super) answered: oneshot::Receiver<Settled>,
    /// The way to the writer that has it.
    pub(super) lane: usize,
    pub(super) marks: Marks,
    pub(super) id: Uuid,
    pub(super) deadline: Instant,
}

impl Pending {
    /// Waits for the answer. To be asked once.
    pub async fn answer(&mut self) -> Answer {
        let mut wait = self.inbox.options.inflight_wait;
        loop {
            let until = (Instant::now() + wait).min(self.deadline);
            match tokio::time::timeout_at(until, &mut self.answered).await {
                Ok(Ok(settled)) => return self.take(settled),
                Ok(Err(_)) => {
                    return answers::unavailable("the writer stopped before the delivery was settled");
                }
                Err(_) if Instant::now() >= self.deadline => {
                    return answers::unavailable("the deadline passed before the delivery was settled");
                }
                Err(_) if self.is_behind_another() => {
                    return answers::conflict("the same key was still being processed");
                }
                Err(_) => wait = CONFLICT_CHECK_EVERY,
            }
        }
    }

    fn take(&self, settled: Settled) -> Answer {
        if let (Some((row, began)), [event]) = (settled.remembered, settled.delivery.events.as_slice()) {
            self.inbox.recent.remember(self.marks.event, &event.key, row, began);
        }
        settled.answer
    }

    fn is_behind_another(&self) -> bool {
        self.inbox.lanes[self.lane].executing.holds_for_another(self.marks, self.id)
    }
}
