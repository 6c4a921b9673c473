//! A source at run time: everything a delivery needs to know about its sender.
//!
//! Built once from the configuration and shared by every request. Holds no secrets in `Debug`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::envelope::{self, EnvelopeRules};
use crate::event::{BodyGuard, Event};
use crate::handler::HandlerBinding;
use crate::signature::Verifier;

/// Most handlers one source may have: a plan of handlers is a 64-bit mask.
pub const MAX_HANDLERS: usize = 64;

/// Whether the sender must, may or cannot name an `Idempotency-Key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPolicy {
    Required,
    #[default]
    Optional,
    Ignored,
}

/// Which failures are stored under the key and replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayErrors {
    /// None: a retry runs the handler again.
    None,
    /// A refusal for good (422); a passing failure is tried again.
    #[default]
    Permanent,
    /// Stripe's way: any answer since the work began, 500 too.
    All,
}

/// What a captured delivery is recognised by when it comes again under another id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayGuard {
    /// Nothing: the id is signed, or the risk is taken.
    #[default]
    None,
    /// The body: it takes effect once, whatever id it comes under.
    Body,
}

/// By which door the deliveries of a source come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Intake {
    /// They are posted to `/hooks/{source}`.
    #[default]
    Posted,
    /// They are taken from a broker's queue; nobody may post to it.
    Queued,
}

/// What the inbox knows of a sender.
#[derive(Clone)]
pub struct Source {
    pub name: Arc<str>,
    /// The dedup scope.
    pub consumer: Arc<str>,
    pub intake: Intake,
    pub verifier: Verifier,
    pub envelope: EnvelopeRules,
    pub key_policy: KeyPolicy,
    pub replay_errors: ReplayErrors,
    pub replay_guard: ReplayGuard,
    /// What a success is answered with: 200, 201, 202 or 204.
    pub success_status: u16,
    /// In configured order; at most [`MAX_HANDLERS`].
    pub handlers: Vec<HandlerBinding>,
}

impl Source {
    /// What a delivery of these events is recognised by beside their ids.
    #[must_use]
    pub fn guard(&self, body: &[u8], events: &[Event]) -> Option<BodyGuard> {
        match self.replay_guard {
            ReplayGuard::None => None,
            ReplayGuard::Body => envelope::body_guard(&self.consumer, body, events),
        }
    }

    /// The handlers that an event of this type runs through, as a bit mask over `handlers`.
    #[must_use]
    pub fn plan(&self, event_type: &str) -> HandlerMask {
        let mut mask = 0;
        for (bit, binding) in self.handlers.iter().enumerate() {
            if binding.on.matches(event_type) {
                mask |= 1 << bit;
            }
        }
        HandlerMask(mask)
    }

    /// The handlers of a mask, in configured order.
    pub fn planned(&self, mask: HandlerMask) -> impl Iterator<Item = &HandlerBinding> {
        self.handlers.iter().enumerate().filter(move |(bit, _)| mask.0 & (1 << bit) != 0).map(|(_, b)| b)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("consumer", &self.consumer)
            .field("verifier", &self.verifier)
            .finish_non_exhaustive()
    }
}

/// Which of a source's handlers an event runs through. Zero: none, the event is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerMask(u64);

impl HandlerMask {
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
