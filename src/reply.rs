//! The answer to a delivery as plain values: status, headers, body.
//!
//! Pure: knows neither HTTP types nor SQL. The standard answers are a function of outcome, event
//! id and configured status, so the store need not keep their bytes; a handler's own answer is
//! kept whole.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use crate::event::EventKey;
use crate::inbox::outcome::{EventOutcome, EventState};
use crate::problem::Problem;

/// A success without a body (RFC 9110 section 15.3.5).
const NO_CONTENT: u16 = 204;

/// The statuses that a handler may answer with: those that end a request and say what became of it.
pub(crate) const FINAL_STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// Status, the headers that belong to the answer, and the body bytes: what a replay repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// Name (lower case) and value.
    pub headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    pub body: Bytes,
}

impl Reply {
    /// A JSON answer.
    #[must_use]
    pub(crate) fn json(status: u16, body: &impl Serialize) -> Self {
        if status == NO_CONTENT {
            return Self { status, headers: Vec::new(), body: Bytes::new() };
        }
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: serde_json::to_vec(body).expect("texts and lists of them serialize").into(),
        }
    }

    /// The answer that an event gets when no handler gave one. Always the same bytes for the same
    /// arguments: a replay renders it again.
    #[must_use]
    pub fn standard(state: EventState, status: u16, key: &EventKey) -> Self {
        match state {
            EventState::Applied | EventState::Ignored | EventState::Stale => {
                Self::json(status, &Line { status: state.as_str(), event_id: &key.event_id })
            }
            EventState::Rejected if status == Problem::EventFailed.status() => Problem::EventFailed.reply(),
            EventState::Rejected => Problem::EventRejected.reply(),
        }
    }

    /// The answer for an event that was processed before and whose own answer has expired.
    #[must_use]
    pub fn duplicate(status: u16, key: &EventKey) -> Self {
        Self::json(status, &Line { status: "duplicate", event_id: &key.event_id })
    }

    /// The answer for a body of many events: one line for each, in order.
    #[must_use]
    pub fn batch<'a>(
        status: u16,
        overall: &str,
        events: impl Iterator<Item = (&'a EventKey, EventOutcome)>,
    ) -> Self {
        let events =
            events.map(|(key, outcome)| Line { status: outcome.as_str(), event_id: &key.event_id }).collect();
        Self::json(status, &Lines { status: overall, events })
    }
}

/// What a success says of one event.
#[derive(Serialize)]
struct Line<'a> {
    status: &'a str,
    event_id: &'a str,
}

/// What a success says of a list.
#[derive(Serialize)]
struct Lines<'a> {
    status: &'a str,
    events: Vec<Line<'a>>,
}
