//! What became of a delivery and of each of its events.
//!
//! Three words that are easily confused: an event's *state* is what `processed_events` keeps; an
//! event's *outcome* is what one delivery of it met; a delivery's *outcome* is what the sender, the
//! ledger and the metrics are told.

use crate::event::EventKey;
use crate::reply::Reply;

/// What became of a delivery: the value of `Hooklatch-Outcome`, of the ledger and of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    Applied,
    Replayed,
    Duplicate,
    Stale,
    Ignored,
    /// A question whether the address is ours, answered. No event.
    Handshake,
    Rejected,
    Conflict,
    Mismatch,
    Unverified,
    Malformed,
    Unavailable,
}

impl Outcome {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Applied,
        Self::Replayed,
        Self::Duplicate,
        Self::Stale,
        Self::Ignored,
        Self::Handshake,
        Self::Rejected,
        Self::Conflict,
        Self::Mismatch,
        Self::Unverified,
        Self::Malformed,
        Self::Unavailable,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Replayed => "replayed",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Ignored => "ignored",
            Self::Handshake => "handshake",
            Self::Rejected => "rejected",
            Self::Conflict => "conflict",
            Self::Mismatch => "mismatch",
            Self::Unverified => "unverified",
            Self::Malformed => "malformed",
            Self::Unavailable => "unavailable",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.as_str() == text)
    }
}

/// What `processed_events` keeps of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventState {
    Applied,
    Ignored,
    Stale,
    /// Refused, its effect undone, a dead letter kept. It did not take effect: once the answer is
    /// no longer replayed, the event counts as absent.
    Rejected,
}

impl EventState {
    const ALL: [Self; 4] = [Self::Applied, Self::Ignored, Self::Stale, Self::Rejected];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Ignored => "ignored",
            Self::Stale => "stale",
            Self::Rejected => "rejected",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// What one delivery of an event met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventOutcome {
    /// The event was new: this is what became of it.
    New(EventState),
    /// Processed before, its answer is still replayed.
    Replayed,
    /// Processed before, its answer has expired.
    Duplicate,
    /// Nothing was stored.
    Unavailable,
}

impl EventOutcome {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New(state) => state.as_str(),
            Self::Replayed => "replayed",
            Self::Duplicate => "duplicate",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What the inbox tells of a delivery it has settled.
#[derive(Clone, Debug)]
pub struct Answer {
    pub outcome: Outcome,
    pub reply: Reply,
    /// The reply is a stored one: it carries `Idempotent-Replayed: true`.
    pub replayed: bool,
    /// Seconds for `Retry-After`, on answers that ask the sender to come again.
    pub retry_after_seconds: Option<u32>,
    /// Each event with what this delivery of it met, in the order of the body. Empty when the
    /// delivery was settled without looking at events.
    pub events: Vec<(EventKey, EventOutcome)>,
    /// For the ledger only: why, in words an operator can act on.
    pub reason: Option<String>,
}
