//! A dead letter, applied again by an operator, through the same path as a delivery.
//!
//! The event is parsed anew from the bytes as they came, with the source's rules of today. If it
//! has been applied meanwhile, the dead letter just goes.

use crate::event::{Delivery, RawRequest};
use crate::inbox::apply::{Care, Mode, NotCommitted, apply};
use crate::inbox::outcome::{Answer, Outcome};
use crate::inbox::refuse::UNREADABLE;
use crate::inbox::{Inbox, answers, with_causes};
use crate::source::Source;
use crate::store::{DeadLetter, LedgerEntry};

use std::sync::Arc;

/// Who the ledger names as the sender of a delivery that an operator repeats.
const OPERATOR: &str = "operator";

/// Why a dead letter could not be applied again.
#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    /// The letter's source is not configured any more.
    #[error("source {0:?} is not configured any more; add it, or discard the dead letter")]
    UnknownSource(String),
    /// The source's rules do not find the event in the kept bytes.
    #[error("the kept request cannot be read with the source's rules of today")]
    Unreadable(#[source] crate::envelope::EnvelopeError),
    /// The rules read the request, but name other events.
    #[error("the source's rules of today find no event {0:?} in the kept request")]
    EventNotFound(String),
}

impl Inbox {
    /// Applies a dead letter again. `source` is the one it names, as configured today.
    ///
    /// # Errors
    /// When the kept request does not lead to the event any more. What became of the event
    /// otherwise is in the answer.
    pub async fn retry(&self, letter: DeadLetter, source: Option<Arc<Source>>) -> Result<Answer, RetryError> {
        let shared = &*self.shared;
        let started = tokio::time::Instant::now();
        let source = source.ok_or_else(|| RetryError::UnknownSource(letter.source.clone()))?;
        let request = RawRequest { target: letter.target.into(), headers: letter.headers, body: letter.body };
        let mut parsed = source.envelope.parse(&source.consumer, &request).map_err(RetryError::Unreadable)?;
        let guard = source.guard(&request.body, &parsed.events);
        // A message in which nothing was found had no event of its own: today's rules find all of them.
        let was_unreadable = letter.key.event_id.starts_with(UNREADABLE);
        if !was_unreadable {
            parsed.events.retain(|event| event.key == letter.key);
            parsed.events.truncate(1);
        }
        if parsed.events.is_empty() {
            return Err(RetryError::EventNotFound(letter.key.event_id.to_string()));
        }
        let delivery = Delivery {
            id: crate::clock::new_id(),
            source,
            events: parsed.events,
            is_batch: was_unreadable && parsed.is_batch,
            explicit_key: None,
            guard,
            request,
            received_at: shared.clock.now(),
        };
        let answer =
            match apply(&*shared.store, &[&delivery], &shared.terms, &Mode::Retry, Care::Chunks(1)).await {
                Ok(mut committed) => {
                    let composed = committed.answers.pop();
                    composed.map_or_else(|| answers::unavailable("the event was not settled"), |c| c.answer)
                }
                Err(NotCommitted::Store(error)) => answers::unavailable(with_causes(&error)),
                Err(NotCommitted::Exclude(_) | NotCommitted::HandlerFailed) => {
                    answers::unavailable("the event was not settled")
                }
            };
        if was_unreadable && is_done(answer.outcome) {
            let discarded = shared.store.discard_dead_letters(&[letter.id]).await;
            if let Err(error) = discarded {
                tracing::warn!(error.reason = %with_causes(&error), "a dead letter whose events were applied is still there");
            }
        }
        self.note(&delivery, &answer, started.elapsed()).await;
        Ok(answer)
    }

    /// An operator's act is never dropped from the ledger for want of room: it is written at once.
    async fn note(&self, delivery: &Delivery, answer: &Answer, duration: std::time::Duration) {
        let event = delivery.events.first();
        let entry = LedgerEntry {
            delivery_id: delivery.id,
            ordinal: 0,
            received_at: delivery.received_at,
            source: Arc::clone(&delivery.source.name),
            event_id: event.map(|e| Arc::clone(&e.key.event_id)),
            event_type: event.map(|e| Arc::clone(&e.event_type)),
            idempotency_key: None,
            outcome: answer.outcome,
            status: answer.reply.status,
            duration,
            body_bytes: u32::try_from(delivery.request.body.len()).unwrap_or(u32::MAX),
            peer: Some(OPERATOR.into()),
            reason: answer.reason.clone(),
            headers: Vec::new(),
        };
        if let Err(error) = self.shared.store.record_deliveries(&[entry]).await {
            tracing::warn!(error.reason = %with_causes(&error), "an operator's retry is missing from the ledger");
        }
    }
}

/// Whether the events have taken effect, or need none.
fn is_done(outcome: Outcome) -> bool {
    use Outcome::{Applied, Duplicate, Ignored, Replayed, Stale};
    matches!(outcome, Applied | Replayed | Duplicate | Stale | Ignored)
}
