//! standard-webhooks, as the plain peer verifies it: HMAC-SHA256 over `id.timestamp.body`.

use actix_web::http::header::HeaderMap;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::generator::unix_now;

/// How far a sender's clock may be off.
const TOLERANCE_SECONDS: u64 = 300;

pub(super) struct Verifier(Hmac<Sha256>);

impl Verifier {
    /// `secret` as standard-webhooks writes it: `whsec_` and base64.
    pub(super) fn new(secret: &str) -> Result<Self> {
        let key = STANDARD
            .decode(secret.strip_prefix("whsec_").context("the secret does not begin with whsec_")?)?;
        Ok(Self(Hmac::new_from_slice(&key)?))
    }

    pub(super) fn accepts(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(id), Some(timestamp), Some(signatures)) =
            (text("webhook-id"), text("webhook-timestamp"), text("webhook-signature"))
        else {
            return false;
        };
        if !timestamp.parse().is_ok_and(|sent: u64| sent.abs_diff(unix_now()) <= TOLERANCE_SECONDS) {
            return false;
        }
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        signatures
            .split(' ')
            .filter_map(|one| one.strip_prefix("v1,"))
            .any(|encoded| STANDARD.decode(encoded).is_ok_and(|code| mac.clone().verify_slice(&code).is_ok()))
    }
}
