//! Why a delivery was not verified, in sentences an operator can act on.
//!
//! Never holds a secret, a signature or any part of a body. None of this goes to the sender: an
//! attacker learns only that the signature could not be verified.

use std::fmt;
use std::net::IpAddr;

use chrono::{DateTime, SecondsFormat, Utc};

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
        "header `{header}` carries only a `{field}` signature, which the sender adds in test mode and which \
         proves nothing"
    )]
    TestModeOnly { header: String, field: &'static str },
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
         or the body was changed on the way and differs from what was signed"
    )]
    NoMatch { secrets: usize, signatures: usize },
    /// `number` counts from 1, in the order of the configuration.
    #[error(
        "secret {number} signed it, but that secret ended at {} (not_after): the sender still uses the old one",
        .not_after.to_rfc3339_opts(SecondsFormat::Secs, true)
    )]
    ExpiredSecret { number: usize, not_after: DateTime<Utc> },
    #[error("the body differs from what was signed: its SHA-256 is not the one in `{place}`")]
    BodyDiffers { place: &'static str },
    #[error("nothing signs the body: {problem}")]
    BodyUnsigned { problem: &'static str },
    #[error("the signature is in the body, and {problem}")]
    UnreadableBody { problem: &'static str },
    /// `item` counts from 1.
    #[error(
        "the signature of item {item} matches none of {secrets} secret(s): the secret is wrong, or the item \
         was changed"
    )]
    ItemDiffers { item: usize, secrets: usize },
    #[error("the token in {place} is not the configured one")]
    WrongToken { place: String },
    #[error("there is no token: {place} is missing")]
    MissingToken { place: String },
    #[error("the certificate {problem}")]
    Certificate { problem: &'static str },
    #[error(
        "the client showed no certificate in the TLS handshake; give the sender one that an authority of \
         http.tls.client_ca has signed"
    )]
    NoClientCertificate,
    #[error(
        "the client's certificate is none that may send: subject {}, names [{}], SHA-256 {fingerprint}",
        .subject.as_deref().unwrap_or("(unreadable)"), .names.join(", ")
    )]
    WrongClientCertificate { subject: Option<String>, names: Vec<String>, fingerprint: String },
    #[error("{address} may not send here: it is in no network of allow_ips")]
    Address { address: IpAddr },
    #[error("the address of the sender is not known, and allow_ips names who may send")]
    NoAddress,
    #[error("no scheme of any_of accepts it: {}", Listed(.0))]
    NoneOf(Vec<Refusal>),
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
    #[error("the scheme signs the field `{field}`, whose value only the sender knows")]
    NeedsField { field: String },
    #[error(
        "only the public key is known; give the private key to sign: PKCS#8 as PEM, or `pkcs8:` and base64"
    )]
    PublicKeyOnly,
    #[error("the scheme puts its signature into the body, and {problem}")]
    UnfitBody { problem: &'static str },
    #[error(
        "the scheme proves the sender by the certificate it shows in the TLS handshake, which no request carries"
    )]
    ProvenByConnection,
    #[error("the scheme changes more than headers, so headers alone cannot be signed")]
    NotHeadersAlone,
    #[error("no secret can be used any more: all have passed their not_after")]
    AllExpired,
}

/// Sentences after one another.
struct Listed<'a>(&'a [Refusal]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, refusal) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}({}) {refusal}", index + 1)?;
        }
        Ok(())
    }
}
