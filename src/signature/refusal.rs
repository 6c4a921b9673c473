//! Why a delivery was not verified, in sentences an operator can act on.
//!
//! Never holds a secret, a signature or any part of a body. None of this goes to the sender: an
//! attacker learns only that the signature could not be verified.

/// Why a delivery was not verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("header `{header}` is missing")]
    MissingHeader { header: String },
    #[error("header `{header}` was sent twice, so it is not clear which one counts")]
    RepeatedHeader { header: String },
    #[error("header `{header}` is malformed: {problem}")]
    MalformedHeader { header: String, problem: &'static str },
    #[error("header `{header}` has no field `{field}`")]
    MissingField { header: String, field: String },
    #[error("header `{header}` has the field `{field}` twice, so it is not clear which one counts")]
    RepeatedField { header: String, field: String },
    #[error("header `{header}` carries more than {limit} signatures")]
    TooManySignatures { header: String, limit: usize },
    #[error(
        "the timestamp is {age_seconds} s old, more than {tolerance_seconds} s: a late or replayed delivery, \
         or a clock is wrong"
    )]
    TooOld { age_seconds: i64, tolerance_seconds: u64 },
    #[error(
        "the timestamp is {ahead_seconds} s in the future, more than {tolerance_seconds} s: a clock is wrong, \
         or the timestamp is not in the configured unit"
    )]
    InFuture { ahead_seconds: i64, tolerance_seconds: u64 },
    #[error(
        "none of {secrets} secret(s) matches any of {signatures} signature(s): the secret is wrong, \
         or the body was changed on the way"
    )]
    NoMatch { secrets: usize, signatures: usize },
}

/// Why a request cannot be signed the way a sender of this scheme would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error(
        "the id cannot stand in a header: it must be 1 or more printable ASCII characters without blanks"
    )]
    BadId,
    #[error("the scheme signs the header `{header}`, whose value only the sender knows")]
    NeedsHeader { header: String },
}
