//! From a secret as an operator writes it to the bytes of a key.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use chrono::{DateTime, Utc};

use super::config::{SecretEncoding, VerifyConfigError};
use crate::secret::Secret;

/// Most secrets of one scheme: each costs a hash of the body on a delivery that nobody signed.
pub const MAX_SECRETS: usize = 8;

/// A secret, looked up, and until when it counts.
#[derive(Clone)]
pub(super) struct Dated {
    pub(super) secret: Secret,
    pub(super) not_after: Option<DateTime<Utc>>,
}

/// Whether a secret with this end counts no more.
pub(super) fn is_over(not_after: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    not_after.is_some_and(|end| now > end)
}

/// Makes a key of each secret; none, and too many, are refused.
pub(super) fn each<K>(
    scheme: &'static str,
    secrets: &[Dated],
    mut key: impl FnMut(&Dated) -> Result<K, &'static str>,
) -> Result<Vec<K>, VerifyConfigError> {
    if secrets.is_empty() {
        return Err(VerifyConfigError::NoSecret { scheme });
    }
    if secrets.len() > MAX_SECRETS {
        return Err(VerifyConfigError::TooManySecrets { count: secrets.len(), limit: MAX_SECRETS });
    }
    let numbered = secrets.iter().enumerate();
    numbered
        .map(|(index, dated)| {
            key(dated).map_err(|problem| VerifyConfigError::BadSecret { number: index + 1, problem })
        })
        .collect()
}

/// Keys are written with and without padding; both mean the same bytes.
const LENIENT_PADDING: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Prefixes of keys that belong to public-key signatures.
const PUBLIC_KEY_PREFIXES: [&str; 2] = ["whsk_", "whpk_"];

/// The key bytes of `secret`; `prefix` is removed when it is there.
pub(super) fn decode(
    secret: &Secret,
    encoding: SecretEncoding,
    prefix: &str,
) -> Result<Vec<u8>, &'static str> {
    let text = secret.expose();
    if text.is_empty() {
        return Err("is empty; set it, or remove it from the list");
    }
    if text.trim() != text {
        return Err(
            "begins or ends with white space; remove it (or write the key with secret_encoding = \"hex\")",
        );
    }
    if encoding == SecretEncoding::Base64 && PUBLIC_KEY_PREFIXES.iter().any(|p| text.starts_with(p)) {
        return Err("is a key for public-key signatures; this scheme takes the shared secret (`whsec_…`)");
    }
    let text = text.strip_prefix(prefix).unwrap_or(text);
    if text.is_empty() {
        return Err("has nothing after its prefix; copy the whole secret from the sender");
    }
    match encoding {
        SecretEncoding::Text => Ok(text.as_bytes().to_vec()),
        SecretEncoding::Base64 => {
            LENIENT_PADDING.decode(text).map_err(|_| "is not base64; copy it again from the sender")
        }
        SecretEncoding::Hex => hex::decode(text).map_err(|_| "is not hex; copy it again from the sender"),
    }
}
