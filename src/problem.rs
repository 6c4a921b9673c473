//! The catalogue of errors a caller can get: one variant, one id, one status, one sentence.
//!
//! Bodies are RFC 9457 `application/problem+json`. They are part of the interface, and some are
//! stored and replayed, so the same problem always renders to the same bytes. Nothing internal is
//! said here: SQL errors, secrets and signature reasons go to the log and the ledger.

use serde::Serialize;

use crate::reply::Reply;

/// The media type of every error body (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Namespace of the `type` member. A URN: it names, it does not pretend to be a page.
const TYPE_PREFIX: &str = "urn:hooklatch:problem:";

/// The members of a problem, in the order of RFC 9457 section 3.1.
#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

/// Every error a caller can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    UnknownSource,
    NotFound,
    MethodNotAllowed,
    BodyTooLarge,
    BodyTimeout,
    UnsupportedEncoding,
    MalformedRequest,
    MalformedBody,
    MissingEventId,
    InvalidEventId,
    InvalidIdempotencyKey,
    MissingIdempotencyKey,
    SignatureInvalid,
    IdempotencyKeyReused,
    RequestInProgress,
    EventRejected,
    EventTooOld,
    EventFailed,
    NotRetryable,
    Unavailable,
    NotReady,
    DatabaseUnavailable,
    Unauthorized,
    Internal,
}

impl Problem {
    /// All of them, for the OpenAPI document and the tests.
    pub const ALL: [Self; 24] = [
        Self::UnknownSource,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::BodyTooLarge,
        Self::BodyTimeout,
        Self::UnsupportedEncoding,
        Self::MalformedRequest,
        Self::MalformedBody,
        Self::MissingEventId,
        Self::InvalidEventId,
        Self::InvalidIdempotencyKey,
        Self::MissingIdempotencyKey,
        Self::SignatureInvalid,
        Self::IdempotencyKeyReused,
        Self::RequestInProgress,
        Self::EventRejected,
        Self::EventTooOld,
        Self::EventFailed,
        Self::NotRetryable,
        Self::Unavailable,
        Self::NotReady,
        Self::DatabaseUnavailable,
        Self::Unauthorized,
        Self::Internal,
    ];

    /// The status code.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::MalformedRequest
            | Self::MalformedBody
            | Self::MissingEventId
            | Self::InvalidEventId
            | Self::InvalidIdempotencyKey
            | Self::MissingIdempotencyKey => 400,
            Self::SignatureInvalid | Self::Unauthorized => 401,
            Self::UnknownSource | Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::BodyTimeout => 408,
            Self::RequestInProgress | Self::NotRetryable => 409,
            Self::BodyTooLarge => 413,
            Self::UnsupportedEncoding => 415,
            Self::IdempotencyKeyReused | Self::EventRejected | Self::EventTooOld => 422,
            Self::EventFailed | Self::Internal => 500,
            Self::Unavailable | Self::NotReady | Self::DatabaseUnavailable => 503,
        }
    }

    /// The id at the end of the `type` URN.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::UnknownSource => "unknown-source",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::BodyTooLarge => "body-too-large",
            Self::BodyTimeout => "body-timeout",
            Self::UnsupportedEncoding => "unsupported-encoding",
            Self::MalformedRequest => "malformed-request",
            Self::MalformedBody => "malformed-body",
            Self::MissingEventId => "missing-event-id",
            Self::InvalidEventId => "invalid-event-id",
            Self::InvalidIdempotencyKey => "invalid-idempotency-key",
            Self::MissingIdempotencyKey => "missing-idempotency-key",
            Self::SignatureInvalid => "signature-invalid",
            Self::IdempotencyKeyReused => "idempotency-key-reused",
            Self::RequestInProgress => "request-in-progress",
            Self::EventRejected => "event-rejected",
            Self::EventTooOld => "event-too-old",
            Self::EventFailed => "event-failed",
            Self::NotRetryable => "not-retryable",
            Self::Unavailable => "unavailable",
            Self::NotReady => "not-ready",
            Self::DatabaseUnavailable => "database-unavailable",
            Self::Unauthorized => "unauthorized",
            Self::Internal => "internal",
        }
    }

    /// One sentence that says what is wrong and, where there is one, the way out.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::UnknownSource => "No source has this name.",
            Self::NotFound => "There is nothing here.",
            Self::MethodNotAllowed => "This method does nothing here; the Allow header names those that do.",
            Self::BodyTooLarge => "The body is larger than this receiver accepts.",
            Self::BodyTimeout => "The body did not arrive in time. Send it again.",
            Self::UnsupportedEncoding => "Send the body without a Content-Encoding.",
            Self::MalformedRequest => "The request cannot be read.",
            Self::MalformedBody => "The body is not the JSON this source sends.",
            Self::MissingEventId => "The delivery carries no event id.",
            Self::InvalidEventId => {
                "An event id is a text or an integer of 1 to 1024 bytes, without control characters."
            }
            Self::InvalidIdempotencyKey => {
                "An Idempotency-Key is 1 to 255 printable ASCII characters, sent once."
            }
            Self::MissingIdempotencyKey => "This source needs an Idempotency-Key header.",
            Self::SignatureInvalid => "The signature could not be verified.",
            Self::IdempotencyKeyReused => "This Idempotency-Key was used for another request.",
            Self::RequestInProgress => "The same delivery is still being processed. Try again shortly.",
            Self::EventRejected => {
                "The event was refused and kept for the operator. A retry will not change that."
            }
            Self::EventTooOld => {
                "The event is too old to tell whether it was processed. It was kept for the operator."
            }
            Self::EventFailed => "Processing the event failed. It was kept for the operator.",
            Self::NotRetryable => "The dead letter cannot be applied as its source is configured now.",
            Self::Unavailable => "The delivery could not be stored now. Nothing was kept; send it again.",
            Self::NotReady => "This process takes no deliveries now: it starts, stops, or has no database.",
            Self::DatabaseUnavailable => "The database does not answer now. Try again shortly.",
            Self::Unauthorized => "A valid bearer token is needed.",
            Self::Internal => "Something went wrong here. Nothing was kept; send it again.",
        }
    }

    /// The answer, without a detail: the bytes depend on the problem alone.
    #[must_use]
    pub fn reply(self) -> Reply {
        self.render(self.status(), None)
    }

    /// The same answer under the status that one sender understands.
    #[must_use]
    pub(crate) fn reply_as(self, status: u16) -> Reply {
        self.render(status, None)
    }

    /// The answer with a sentence about this occurrence. Only text that is safe to show goes in.
    #[must_use]
    pub fn reply_with(self, detail: &str) -> Reply {
        self.render(self.status(), Some(detail))
    }

    fn render(self, status: u16, detail: Option<&str>) -> Reply {
        let body = Body { r#type: [TYPE_PREFIX, self.id()].concat(), title: self.title(), status, detail };
        Reply {
            status,
            headers: vec![("content-type".into(), PROBLEM_JSON.into())],
            body: serde_json::to_vec(&body).expect("texts and numbers serialize").into(),
        }
    }
}
