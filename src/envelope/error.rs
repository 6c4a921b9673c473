//! Why a verified request is not a delivery, in words that the sender may read.
//!
//! Names places and kinds, never what stood there.

use std::fmt;

use crate::json_scan::JsonFault;
use crate::problem::Problem;

/// Why a verified request is not a delivery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("The body has a Content-Encoding; send it without.")]
    ContentEncoding,
    #[error("The body is empty.")]
    EmptyBody,
    #[error("The body is not UTF-8: byte {offset} is no part of a character.")]
    NotUtf8 { offset: usize },
    #[error("The body is not JSON this receiver reads: {0}.")]
    Json(JsonFault),
    #[error(
        "The body is declared as a form, but {problem} `{field}`; send JSON as application/json, or put \
         it into that field."
    )]
    Form { field: String, problem: &'static str },
    #[error("The body must be a JSON {expected}.")]
    WrongShape { expected: &'static str },
    #[error("There is no array of events at `{pointer}`.")]
    NoItems { pointer: String },
    #[error("The body carries more than {limit} events; send fewer at once.")]
    TooManyItems { limit: usize },
    #[error("{}The {role} at {place} {fault}.", InItem(*.item))]
    Field { item: Option<usize>, role: Role, place: String, fault: Fault },
    #[error("This source needs an Idempotency-Key header.")]
    NoKey,
    #[error("The Idempotency-Key {0}.")]
    BadKey(&'static str),
}

/// What a place of the envelope is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Item,
    EventId,
    EventType,
    EventTime,
    Entity,
    Sequence,
}

/// What is wrong at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Missing,
    Null,
    Invalid(&'static str),
}

impl EnvelopeError {
    /// Which answer the sender gets. The text of this error is safe as its detail.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::ContentEncoding => Problem::UnsupportedEncoding,
            Self::EmptyBody
            | Self::NotUtf8 { .. }
            | Self::Json(_)
            | Self::Form { .. }
            | Self::WrongShape { .. }
            | Self::NoItems { .. }
            | Self::TooManyItems { .. } => Problem::MalformedBody,
            Self::Field { role: Role::EventId, fault: Fault::Missing, .. } => Problem::MissingEventId,
            Self::Field { role: Role::EventId, .. } => Problem::InvalidEventId,
            Self::Field { .. } => Problem::MalformedBody,
            Self::NoKey => Problem::MissingIdempotencyKey,
            Self::BadKey(_) => Problem::InvalidIdempotencyKey,
        }
    }
}

/// "Event 3 of the body: ", counted from 1; nothing for a body that is one event.
struct InItem(Option<usize>);

impl fmt::Display for InItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => write!(f, "Event {} of the body: ", index + 1),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Item => "event",
            Self::EventId => "event id",
            Self::EventType => "event type",
            Self::EventTime => "event time",
            Self::Entity => "ordering entity",
            Self::Sequence => "ordering sequence",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Null => "is null",
            Self::Invalid(problem) => problem,
        })
    }
}
