//! A delivery that is not to be applied: its events are kept for a person.

use crate::event::Delivery;
use crate::inbox::apply::{Care, Mode, NotCommitted, apply};
use crate::inbox::outcome::Answer;
use crate::inbox::{Inbox, answers, with_causes};

/// How the id of an event begins that stands for a message in which none was found.
pub(crate) const UNREADABLE: &str = "unreadable:";

impl Inbox {
    /// Makes dead letters of a delivery's events, unseen by any handler. What was applied before stays
    /// applied, and is answered so.
    pub async fn refuse(&self, delivery: &Delivery, reason: &str) -> Answer {
        let shared = &*self.shared;
        let mode = Mode::Refuse(reason.to_owned());
        match apply(&*shared.store, &[delivery], &shared.terms, &mode, Care::Chunks(1)).await {
            Ok(mut committed) => {
                let composed = committed.answers.pop();
                composed.map_or_else(|| answers::unavailable("the delivery was not settled"), |c| c.answer)
            }
            Err(NotCommitted::Store(error)) => answers::unavailable(with_causes(&error)),
            Err(NotCommitted::Exclude(_) | NotCommitted::HandlerFailed) => answers::unavailable(reason),
        }
    }
}
