//! PayPal: RSA over the transmission's id and time, the webhook's id and the CRC-32 of the body,
//! with a certificate that the delivery only names.
//!
//! Verification itself is pure: it uses certificates that are at hand, configured or fetched before
//! by [`Certificates`]. A certificate counts only from PayPal's hosts, with a chain to a root that
//! browsers trust, in its time, and made out to PayPal.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat, Utc};

use super::Verified;
use super::certificate::{CertificateUrl, Certificates, Chain};
use super::config::{Encoding, PublicAlgorithm, TimestampUnit, VerifyConfigError};
use super::key::{self, Dated};
use super::knob_check::{self, bad};
use super::public_key::{self, PublicKey};
use super::reading::single;
use super::refusal::{Refusal, SignError};
use super::timestamp::{self, Window};
use crate::event::RawRequest;
use crate::secret::Secret;

const ID: &str = "paypal-transmission-id";
const TIME: &str = "paypal-transmission-time";
const SIGNATURE: &str = "paypal-transmission-sig";
const CERT_URL: &str = "paypal-cert-url";
const ALGORITHM: &str = "paypal-auth-algo";
const SHA256_WITH_RSA: &str = "SHA256withRSA";

/// What a made delivery names as its certificate.
const USUAL_CERT_URL: &str = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270";

#[derive(Clone)]
pub(super) struct PayPalScheme {
    webhook_id: String,
    window: Window,
    /// Configured: nothing is fetched.
    pinned: Option<Arc<Chain>>,
    certificates: Certificates,
    /// Only for making deliveries.
    signer: Option<PublicKey>,
}

impl PayPalScheme {
    pub(super) fn new(
        webhook_id: Option<&str>,
        certificate: Option<&Secret>,
        window: Window,
        secrets: &[Dated],
        certificates: Certificates,
    ) -> Result<Self, VerifyConfigError> {
        let webhook_id = webhook_id.ok_or(VerifyConfigError::Missing {
            key: "webhook_id",
            way_out: "PayPal signs the id of the webhook; copy it from the webhook's page",
        })?;
        if webhook_id.is_empty() || !webhook_id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|') {
            return Err(bad("webhook_id", "is no id of a webhook; copy it from the webhook's page"));
        }
        knob_check::window(window)?;
        let pinned = certificate
            .map(|pem| {
                Chain::from_pem(pem.expose()).map(Arc::new).map_err(|problem| bad("certificate", problem))
            })
            .transpose()?;
        let signer = match secrets {
            [] => None,
            secrets => key::each("paypal", secrets, |dated| {
                let key = PublicKey::parse(&dated.secret, PublicAlgorithm::Rsa)?;
                if key.can_sign() {
                    Ok(key)
                } else {
                    Err("is no private key; PayPal's deliveries need no secret")
                }
            })?
            .into_iter()
            .next(),
        };
        Ok(Self { webhook_id: webhook_id.to_owned(), window, pinned, certificates, signer })
    }

    pub(super) fn replay_window(&self) -> Option<std::time::Duration> {
        Some(self.window.past? + self.window.future?)
    }

    pub(super) fn headers(&self) -> Vec<&str> {
        vec![ID, TIME, SIGNATURE, CERT_URL, ALGORITHM]
    }

    /// The certificate that a delivery needs and that is not at hand.
    pub(super) fn missing_certificate(&self, request: &RawRequest) -> Option<CertificateUrl> {
        if self.pinned.is_some() {
            return None;
        }
        let url = CertificateUrl::parse(single(request, CERT_URL).ok()?).ok()?;
        self.certificates.cached(&url).is_none().then_some(url)
    }

    pub(super) fn take_certificates(&mut self, certificates: Certificates) {
        self.certificates = certificates;
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn verify(&self, request: &RawRequest, now: DateTime<Utc>) -> Result<Verified, Refusal> {
        let malformed =
            |header: &str, problem| Refusal::MalformedHeader { header: header.to_owned(), problem };
        let id = single(request, ID)?;
        let time = single(request, TIME)?;
        let signature = single(request, SIGNATURE)?;
        let url = single(request, CERT_URL)?;
        if single(request, ALGORITHM)? != SHA256_WITH_RSA {
            return Err(malformed(ALGORITHM, "it names another algorithm than SHA256withRSA"));
        }
        let url = CertificateUrl::parse(url).map_err(|problem| Refusal::Certificate { problem })?;
        let signature = public_key::decode_signature(signature, Encoding::Base64, PublicAlgorithm::Rsa)
            .map_err(|problem| malformed(SIGNATURE, problem))?;
        let at = timestamp::parse(time.as_bytes(), TimestampUnit::Rfc3339)
            .map_err(|problem| malformed(TIME, problem))?;
        self.window.check(at, now, TimestampUnit::Rfc3339)?;
        let chain = self.pinned.clone().or_else(|| self.certificates.cached(&url));
        let chain = chain.ok_or(Refusal::Certificate {
            problem: "could not be fetched from PayPal; the log says why. It can be configured as verify.certificate",
        })?;
        let key = chain
            .key_for(url.subject(), self.certificates.roots(), now)
            .map_err(|problem| Refusal::Certificate { problem })?;
        let message = format!("{id}|{time}|{}|{}", self.webhook_id, crc32(&request.body));
        if !key.verifies(message.as_bytes(), &signature) {
            return Err(Refusal::NoMatch { secrets: 1, signatures: 1 });
        }
        Ok(Verified { secret_index: None, timestamp: Some(at) })
    }

    pub(super) fn sign(
        &self,
        body: &[u8],
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<Vec<(String, String)>, SignError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SignError::BadId);
        }
        let time = now.to_rfc3339_opts(SecondsFormat::Secs, true);
        let message = format!("{id}|{time}|{}|{}", self.webhook_id, crc32(body));
        let signature = self.signer.as_ref().and_then(|key| key.sign(message.as_bytes()));
        let signature = STANDARD.encode(signature.ok_or(SignError::PublicKeyOnly)?);
        let headers = [
            (ID, id),
            (TIME, &time),
            (SIGNATURE, &signature),
            (CERT_URL, USUAL_CERT_URL),
            (ALGORITHM, SHA256_WITH_RSA),
        ];
        Ok(headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }
}

/// CRC-32 as in zlib and Ethernet. It protects nothing by itself; the RSA signature is over it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ CRC_TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)])
}

static CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    const REVERSED_POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ REVERSED_POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_catalogue() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
