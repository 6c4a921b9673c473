//! What an operator writes to say how a sender signs: the table `verify` of a source.
//!
//! Only its shape is checked here. What the knobs mean together is checked where a verifier is
//! built; secrets arrive there already looked up.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::config::SecretRef;

/// How the deliveries of a source are verified. There is no default scheme: whoever wants
/// unsigned deliveries writes `scheme = "none"`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyConfig {
    /// `none`, `hmac`, `standard-webhooks`.
    pub scheme: String,
    /// The secrets that may sign, newest first: `env:NAME`, `file:PATH`, or the secret itself.
    /// Several let an old and a new one overlap; a delivery that any of them signed is accepted.
    #[serde(default)]
    pub secrets: Vec<SecretRef>,
    /// Oldest (and, unless `tolerance_future` says otherwise, newest) timestamp accepted, as in
    /// `"5m"`. A delivery that is exactly this old is accepted.
    #[serde(default, deserialize_with = "duration")]
    pub tolerance: Option<Duration>,
    /// How far the timestamp may lie ahead of our clock.
    #[serde(default, deserialize_with = "duration")]
    pub tolerance_future: Option<Duration>,

    /// `hmac`: the header that carries the signature.
    pub header: Option<String>,
    /// `hmac`: what stands before the encoded signature, such as `sha256=`. Compared exactly.
    pub prefix: Option<String>,
    /// `hmac`: `sha256` (default), `sha1`, `sha512`.
    pub hash: Option<Hash>,
    /// `hmac`: `hex` (default; upper and lower case are both read) or `base64`.
    pub encoding: Option<Encoding>,
    /// `hmac`: the character between several signatures, or between fields, in the header. Unset,
    /// the header is one signature.
    pub separator: Option<String>,
    /// `hmac`: the name of the signature in a header of `name=value` fields (Stripe: `v1`).
    pub signature_field: Option<String>,
    /// `hmac`: the name of the timestamp in a header of `name=value` fields (Stripe: `t`).
    pub timestamp_field: Option<String>,
    /// `hmac`: the header that carries the timestamp.
    pub timestamp_header: Option<String>,
    /// `hmac`: `seconds` (default), `milliseconds`, `rfc3339`.
    pub timestamp_unit: Option<TimestampUnit>,
    /// `hmac`: the header that `{id}` means.
    pub id_header: Option<String>,
    /// `hmac`: what is signed, such as `{timestamp}.{body}`. Knows `{body}`, `{timestamp}`,
    /// `{id}`, `{header:NAME}`, `{method}`, `{url}`; `{{` and `}}` are braces. Default `{body}`.
    pub signed: Option<String>,
    /// `hmac`: what `{url}` means: the address the sender posts to, without a query. The query of
    /// each request is appended.
    pub url: Option<String>,
    /// `hmac`: how a secret is written: `text` (default: its bytes are the key), `base64`, `hex`.
    pub secret_encoding: Option<SecretEncoding>,
    /// `hmac`: what is removed from the front of a secret before it is decoded, such as `whsec_`.
    pub secret_prefix: Option<String>,
}

/// The hash of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

/// How signature bytes are written in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Hex,
    Base64,
}

/// How a timestamp is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimestampUnit {
    Seconds,
    Milliseconds,
    Rfc3339,
}

/// How a secret is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretEncoding {
    Text,
    Base64,
    Hex,
}

/// Why no verifier can be built. Each says what is wrong and the way out, and shows no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyConfigError {
    #[error("unknown scheme `{scheme}`; {hint}")]
    UnknownScheme { scheme: String, hint: String },
    #[error("`{key}` has no meaning for scheme `{scheme}`; remove it, or use scheme = \"hmac\"")]
    ForeignKnob { key: &'static str, scheme: &'static str },
    #[error("scheme \"none\" verifies nothing, so it takes no secrets; remove them, or choose a scheme")]
    SecretsWithoutScheme,
    #[error("scheme `{scheme}` needs at least one secret: secrets = [\"env:NAME\"]")]
    NoSecret { scheme: &'static str },
    #[error("{count} secrets are more than {limit}; keep those that still sign")]
    TooManySecrets { count: usize, limit: usize },
    /// `number` counts from 1, in the order of the configuration.
    #[error("secret {number} {problem}")]
    BadSecret { number: usize, problem: &'static str },
    #[error("`{key}` is missing: {way_out}")]
    Missing { key: &'static str, way_out: &'static str },
    #[error("`{key}` {problem}")]
    BadKnob { key: &'static str, problem: String },
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|_| {
        serde::de::Error::custom("a duration is a number with a unit, such as \"5m\" or \"300s\"")
    })
}
