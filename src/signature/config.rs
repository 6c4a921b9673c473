//! What an operator writes to say how a sender signs: the table `verify` of a source.
//!
//! Only its shape is checked here. What the knobs mean together is checked where a verifier is
//! built; secrets arrive there already looked up.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, de};

use crate::config::SecretRef;

/// How the deliveries of a source are verified. There is no default scheme: whoever wants
/// unsigned deliveries writes `scheme = "none"`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyConfig {
    /// The name of a sender (`stripe`, `github`, …), a generic scheme (`hmac`, `public-key`,
    /// `hash`, `bearer`, `token`, `basic`, `mtls`), or `none`. Left out only beside `all_of` or `any_of`.
    #[serde(default)]
    pub scheme: String,
    /// The secrets that may sign, newest first: `env:NAME`, `file:PATH`, or the secret itself; or
    /// `{ secret = …, not_after = "2026-12-31T00:00:00Z" }`. Several let an old and a new one
    /// overlap; a delivery that any of them signed is accepted. Public keys stand here too.
    #[serde(default)]
    pub secrets: Vec<SecretEntry>,
    /// Oldest (and, unless `tolerance_future` says otherwise, newest) timestamp accepted, as in
    /// `"5m"`. A delivery that is exactly this old is accepted.
    #[serde(default, deserialize_with = "duration")]
    pub tolerance: Option<Duration>,
    /// How far the timestamp may lie ahead of our clock.
    #[serde(default, deserialize_with = "duration")]
    pub tolerance_future: Option<Duration>,

    /// The address the sender posts to, without a query (the query of each request is appended):
    /// what `{url}` means, and what Twilio, Square and HubSpot sign.
    pub url: Option<String>,
    /// Meta: the token that the sender shows when it asks whether this address is ours.
    pub handshake_token: Option<SecretRef>,
    /// PayPal: the id of the webhook, which is signed.
    pub webhook_id: Option<String>,
    /// PayPal: the certificate to verify with, as PEM with its intermediates. Unset, the one that
    /// a delivery names is fetched from PayPal.
    pub certificate: Option<SecretRef>,
    /// The networks that may send, such as `"192.0.2.0/24"`. Unset: all.
    #[serde(default)]
    pub allow_ips: Vec<String>,
    /// The proxies in front of us, whose `X-Forwarded-For` is believed for `allow_ips`.
    #[serde(default)]
    pub trusted_proxies: Vec<String>,
    /// `mtls`: the subjects that may send, as RFC 4514 writes them: `CN=relay,O=Example`.
    #[serde(default)]
    pub allow_subjects: Vec<String>,
    /// `mtls`: the alternative names that may send: a DNS name, an address, an e-mail address or a URI.
    #[serde(default)]
    pub allow_names: Vec<String>,
    /// `mtls`: SHA-256 of the certificates that may send, in hex, with or without colons.
    #[serde(default)]
    pub allow_fingerprints: Vec<String>,
    /// Every one of these must accept.
    #[serde(default)]
    pub all_of: Vec<VerifyConfig>,
    /// One of these must accept.
    #[serde(default)]
    pub any_of: Vec<VerifyConfig>,

    /// `hmac`, `hash`, `public-key`: the header that carries the signature. `token`: the token's.
    pub header: Option<String>,
    /// What stands before the encoded signature, such as `sha256=`. Compared exactly.
    pub prefix: Option<String>,
    /// `hmac`, `hash`: `sha256` (default), `sha1`, `sha512`.
    pub hash: Option<Hash>,
    /// `public-key`: `ed25519`, `ecdsa-p256`, `rsa`.
    pub algorithm: Option<PublicAlgorithm>,
    /// `hex` (default; upper and lower case are both read) or `base64`.
    pub encoding: Option<Encoding>,
    /// The character between several signatures, or between fields, in the header. Unset, the
    /// header is one signature.
    pub separator: Option<String>,
    /// The name of the signature in a header of `name=value` fields (Stripe: `v1`).
    pub signature_field: Option<String>,
    /// The name of the timestamp in a header of `name=value` fields (Stripe: `t`).
    pub timestamp_field: Option<String>,
    /// The header that carries the timestamp.
    pub timestamp_header: Option<String>,
    /// The JSON pointer in the body that carries the timestamp (Linear: `/webhookTimestamp`).
    pub timestamp_body: Option<String>,
    /// `seconds` (default), `milliseconds`, `rfc3339`.
    pub timestamp_unit: Option<TimestampUnit>,
    /// The header that `{id}` means.
    pub id_header: Option<String>,
    /// What is signed, such as `{timestamp}.{body}`. Knows `{body}`, `{timestamp}`, `{id}`,
    /// `{header:NAME}`, `{field:NAME}`, `{method}`, `{url}`, `{json:body}` (the body as a JSON
    /// string) and, for `hash`, `{secret}`; `{{` and `}}` are braces. Default `{body}`.
    pub signed: Option<String>,
    /// How a secret is written: `text` (default: its bytes are the key), `base64`, `hex`.
    pub secret_encoding: Option<SecretEncoding>,
    /// What is removed from the front of a secret before it is decoded, such as `whsec_`.
    pub secret_prefix: Option<String>,
}

impl VerifyConfig {
    /// Whether it asks for the certificate of the client, somewhere in it.
    #[must_use]
    pub fn asks_for_client_certificate(&self) -> bool {
        let mut inner = self.all_of.iter().chain(&self.any_of);
        self.scheme == super::mtls::MTLS || inner.any(Self::asks_for_client_certificate)
    }

    /// Every reference to a secret in it, those of `all_of` and `any_of` too.
    #[must_use]
    pub fn secret_refs(&self) -> Vec<&SecretRef> {
        let mut refs: Vec<_> = self.secrets.iter().map(|entry| &entry.secret).collect();
        refs.extend(&self.certificate);
        refs.extend(&self.handshake_token);
        for inner in self.all_of.iter().chain(&self.any_of) {
            refs.extend(inner.secret_refs());
        }
        refs
    }
}

/// A secret, and until when it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretEntry {
    pub secret: SecretRef,
    /// From then on, what it signed is refused as signed with an old secret.
    pub not_after: Option<DateTime<Utc>>,
}

/// The hash of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

/// A signature that is made with a private key and verified with its public half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublicAlgorithm {
    Ed25519,
    /// ECDSA over P-256 and SHA-256; the signature is DER.
    EcdsaP256,
    /// RSA PKCS#1 1.5 over SHA-256, 2048 to 8192 bits.
    Rsa,
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
    #[error(
        "`{key}` has no meaning for scheme `{scheme}`; remove it, or use a generic scheme such as \"hmac\""
    )]
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
    #[error("`{key}`, number {number}: {error}")]
    Inner { key: &'static str, number: usize, error: Box<VerifyConfigError> },
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map(Some)
        .map_err(|_| de::Error::custom("a duration is a number with a unit, such as \"5m\" or \"300s\""))
}

impl<'de> Deserialize<'de> for SecretEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dated {
    secret: SecretRef,
    not_after: Option<DateTime<Utc>>,
}

/// Reads a secret alone or with its end. Numbers are refused without repeating them.
struct TextOrTable;

impl TextOrTable {
    fn refuse<E: de::Error>() -> Result<SecretEntry, E> {
        Err(E::custom("a secret is a text in quotes: \"env:NAME\", \"file:PATH\" or the secret itself"))
    }
}

impl<'de> de::Visitor<'de> for TextOrTable {
    type Value = SecretEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text: \"env:NAME\", \"file:PATH\" or the secret itself")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretEntry, E> {
        Ok(SecretEntry { secret: SecretRef::parse(text), not_after: None })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<SecretEntry, A::Error> {
        let Dated { secret, not_after } = Dated::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(SecretEntry { secret, not_after })
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<SecretEntry, E> {
        Self::refuse()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<SecretEntry, E> {
        Self::refuse()
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<SecretEntry, E> {
        Self::refuse()
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<SecretEntry, E> {
        Self::refuse()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<SecretEntry, E> {
        Self::refuse()
    }
}
