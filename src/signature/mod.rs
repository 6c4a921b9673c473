//! Did the sender who shares our secret send these bytes?
//!
//! A pure function of the request as it came, the secrets and the time. Works on wire bytes only,
//! never on anything decoded from them; compares in constant time; refuses every malformed header
//! and never panics. One engine serves the HMAC family (`hmac`), with a table of named senders
//! (`presets`); a scheme that is really different gets a file of its own and a variant of
//! `Scheme`. Knows nothing of HTTP types, JSON or stores.

mod config;
mod hmac;
mod key;
mod mac;
mod presets;
mod refusal;
mod template;
mod timestamp;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::RawRequest;
use crate::secret::Secret;

pub use config::{Encoding, Hash, SecretEncoding, TimestampUnit, VerifyConfig, VerifyConfigError};
pub use hmac::{MAX_SECRETS, MAX_SIGNATURES};
pub use refusal::{Refusal, SignError};

use hmac::{HmacScheme, Knobs, TimestampKnob};
use presets::{PRESETS, USUAL_TOLERANCE};

/// Accepts everything. Must be written out.
const NONE: &str = "none";
/// The engine with every knob in the operator's hands.
const HMAC: &str = "hmac";

/// How alike (Jaro-Winkler, 0 to 1) an unknown scheme and the one suggested are at least.
const LIKELY_MEANT: f64 = 0.75;

/// Verifies the deliveries of one source.
#[derive(Clone)]
pub struct Verifier {
    name: &'static str,
    scheme: Scheme,
}

#[derive(Clone)]
enum Scheme {
    /// Unsigned deliveries, by the operator's word.
    None,
    Hmac(Box<HmacScheme>),
}

/// What is known of a delivery that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Which of the secrets signed it, in the order of the configuration; `None` when the scheme
    /// has no secrets.
    pub secret_index: Option<usize>,
    /// The time that the sender signed, for schemes that sign one.
    pub timestamp: Option<DateTime<Utc>>,
}

impl Verifier {
    /// Builds a verifier. `secrets` are those of the configuration, looked up.
    ///
    /// # Errors
    /// When the scheme is unknown, a knob is missing or makes no sense, or a secret is no key.
    pub fn new(config: &VerifyConfig, secrets: Vec<Secret>) -> Result<Self, VerifyConfigError> {
        if config.scheme == NONE {
            refuse_foreign_knobs(config, NONE, false)?;
            if !secrets.is_empty() {
                return Err(VerifyConfigError::SecretsWithoutScheme);
            }
            return Ok(Self { name: NONE, scheme: Scheme::None });
        }
        if config.scheme == HMAC {
            let scheme = HmacScheme::new(HMAC, &written_out(config)?, secrets)?;
            return Ok(Self { name: HMAC, scheme: Scheme::Hmac(Box::new(scheme)) });
        }
        let Some(preset) = PRESETS.iter().find(|preset| preset.scheme == config.scheme) else {
            return Err(unknown_scheme(&config.scheme));
        };
        refuse_foreign_knobs(config, preset.scheme, preset.knobs.timestamp.is_some())?;
        let knobs = Knobs {
            past: config.tolerance.unwrap_or(preset.knobs.past),
            future: config.tolerance_future.or(config.tolerance).or(preset.knobs.future),
            ..preset.knobs
        };
        let scheme = HmacScheme::new(preset.scheme, &knobs, secrets)?;
        Ok(Self { name: preset.scheme, scheme: Scheme::Hmac(Box::new(scheme)) })
    }

    /// The name of the scheme, as configured.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.name
    }

    /// The names of all schemes.
    pub fn schemes() -> impl Iterator<Item = &'static str> {
        [NONE, HMAC].into_iter().chain(PRESETS.iter().map(|preset| preset.scheme))
    }

    /// For how long a captured delivery can be sent again and still be verified; `None`: for ever,
    /// since no time is signed. Event keys must be remembered for longer than this.
    #[must_use]
    pub fn replay_window(&self) -> Option<Duration> {
        match &self.scheme {
            Scheme::None => None,
            Scheme::Hmac(hmac) => hmac.replay_window(),
        }
    }

    /// Whether `request` was signed with one of the secrets, near enough to `now`.
    ///
    /// # Errors
    /// Why not, for the operator: the sender is told nothing.
    pub fn verify(
        &self,
        method: &str,
        request: &RawRequest,
        now: DateTime<Utc>,
    ) -> Result<Verified, Refusal> {
        match &self.scheme {
            Scheme::None => Ok(Verified { secret_index: None, timestamp: None }),
            Scheme::Hmac(hmac) => hmac.verify(method, request, now),
        }
    }

    /// The headers, with lower-case names, that a sender of this scheme would send with `body`,
    /// signed with the first secret. `id` goes into the scheme's id header, if it has one.
    ///
    /// # Errors
    /// When `id` cannot stand in a header, or the scheme signs a header only the sender knows.
    pub fn sign(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<Vec<(String, String)>, SignError> {
        match &self.scheme {
            Scheme::None => Ok(Vec::new()),
            Scheme::Hmac(hmac) => hmac.sign(method, target, body, id, now),
        }
    }
}

impl fmt::Debug for Verifier {
    /// Keys never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({})", self.name)
    }
}

/// The knobs of `scheme = "hmac"`, as configured.
fn written_out(config: &VerifyConfig) -> Result<Knobs<'_>, VerifyConfigError> {
    let timestamp = match (&config.timestamp_header, &config.timestamp_field) {
        (Some(_), Some(_)) => {
            return Err(VerifyConfigError::BadKnob {
                key: "timestamp_field",
                problem: "stands beside timestamp_header; the timestamp is in one place, remove the other"
                    .into(),
            });
        }
        (Some(header), None) => Some(TimestampKnob::Header(header)),
        (None, Some(field)) => Some(TimestampKnob::Field(field)),
        (None, None) => None,
    };
    if timestamp.is_none() {
        let dangling = [
            ("tolerance", config.tolerance.is_some()),
            ("tolerance_future", config.tolerance_future.is_some()),
            ("timestamp_unit", config.timestamp_unit.is_some()),
        ];
        if let Some((key, _)) = dangling.into_iter().find(|(_, set)| *set) {
            return Err(VerifyConfigError::BadKnob {
                key,
                problem: "has no meaning without a timestamp; set timestamp_header or timestamp_field".into(),
            });
        }
    }
    let past = config.tolerance.unwrap_or(USUAL_TOLERANCE);
    Ok(Knobs {
        header: config.header.as_deref().ok_or(VerifyConfigError::Missing {
            key: "header",
            way_out: "name the header that carries the signature, such as \"x-signature\"",
        })?,
        prefix: config.prefix.as_deref().unwrap_or_default(),
        hash: config.hash.unwrap_or(Hash::Sha256),
        encoding: config.encoding.unwrap_or(Encoding::Hex),
        separator: config.separator.as_deref(),
        signature_field: config.signature_field.as_deref(),
        timestamp,
        timestamp_unit: config.timestamp_unit.unwrap_or(TimestampUnit::Seconds),
        past,
        future: Some(config.tolerance_future.unwrap_or(past)),
        id_header: config.id_header.as_deref(),
        signed: config.signed.as_deref().unwrap_or("{body}"),
        url: config.url.as_deref(),
        secret_encoding: config.secret_encoding.unwrap_or(SecretEncoding::Text),
        secret_prefix: config.secret_prefix.as_deref().unwrap_or_default(),
    })
}

/// Knobs that the scheme fixes, or has no use for, are mistakes.
fn refuse_foreign_knobs(
    config: &VerifyConfig,
    scheme: &'static str,
    has_timestamp: bool,
) -> Result<(), VerifyConfigError> {
    let knobs = [
        ("tolerance", config.tolerance.is_some() && !has_timestamp),
        ("tolerance_future", config.tolerance_future.is_some() && !has_timestamp),
        ("header", config.header.is_some()),
        ("prefix", config.prefix.is_some()),
        ("hash", config.hash.is_some()),
        ("encoding", config.encoding.is_some()),
        ("separator", config.separator.is_some()),
        ("signature_field", config.signature_field.is_some()),
        ("timestamp_field", config.timestamp_field.is_some()),
        ("timestamp_header", config.timestamp_header.is_some()),
        ("timestamp_unit", config.timestamp_unit.is_some()),
        ("id_header", config.id_header.is_some()),
        ("signed", config.signed.is_some()),
        ("url", config.url.is_some()),
        ("secret_encoding", config.secret_encoding.is_some()),
        ("secret_prefix", config.secret_prefix.is_some()),
    ];
    match knobs.into_iter().find(|(_, set)| *set) {
        Some((key, _)) => Err(VerifyConfigError::ForeignKnob { key, scheme }),
        None => Ok(()),
    }
}

fn unknown_scheme(scheme: &str) -> VerifyConfigError {
    let known = Verifier::schemes().collect::<Vec<_>>().join(", ");
    let nearest = Verifier::schemes()
        .map(|known| (strsim::jaro_winkler(&scheme.to_lowercase(), known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness >= LIKELY_MEANT);
    let hint = match nearest {
        Some((_, nearest)) => format!("did you mean `{nearest}`? (there are {known})"),
        None => format!("there are {known}"),
    };
    VerifyConfigError::UnknownScheme { scheme: scheme.to_owned(), hint }
}

/// Whether `name` is a token of RFC 9110, which header names are.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests;
