//! Did the sender who shares our secret send these bytes?
//!
//! A pure function of the request as it came, the secrets and the time. Works on wire bytes; a body
//! is decoded only where the sender's scheme says so. Compares in constant time; refuses every
//! malformed header and never panics. One engine serves every sender that puts a signature into a
//! header (`engine`), with tables of named senders ([`Preset`]); a scheme that is really different
//! gets a file of its own and a variant of `Scheme`. What a verifier says of itself is in `properties`,
//! what a sender would send in `sign`. Knows nothing of HTTP types or stores.

mod address;
mod adyen;
mod build;
mod certificate;
mod config;
mod engine;
mod explain;
mod generate;
mod handshake;
mod json;
mod key;
mod knob_check;
mod knobs;
mod mac;
mod mailgun;
mod mtls;
mod paypal;
mod presets;
mod properties;
mod public_key;
mod reading;
mod refusal;
mod sign;
mod signing_key;
mod template;
mod timestamp;
mod token;
mod twilio;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::event::RawRequest;
use crate::secret::Secret;
use crate::tls::ClientCertificate;

pub use certificate::{CertificateSource, CertificateUrl, Certificates};
pub use config::{
    Encoding, Hash, PublicAlgorithm, SecretEncoding, SecretEntry, TimestampUnit, VerifyConfig,
    VerifyConfigError,
};
pub use engine::MAX_SIGNATURES;
pub use explain::{Explanation, Step};
pub use generate::{GenerateError, Generated, generate};
pub use handshake::HandshakeKind;
pub use key::MAX_SECRETS;
pub use presets::{Contract, Preset};
pub use refusal::{Refusal, SignError};
pub use sign::SignedRequest;

use address::AllowList;
use adyen::AdyenScheme;
use engine::HeaderScheme;
use mailgun::MailgunScheme;
use mtls::ClientScheme;
use paypal::PayPalScheme;
use token::TokenScheme;
use twilio::TwilioScheme;

/// Accepts everything. Must be written out.
const NONE: &str = "none";
/// Several schemes, of which all or one must accept.
const ALL_OF: &str = "all_of";
const ANY_OF: &str = "any_of";

/// Verifies the deliveries of one source.
#[derive(Clone)]
pub struct Verifier {
    name: &'static str,
    scheme: Scheme,
    preset: Option<&'static Preset>,
    handshake_token: Option<Secret>,
    allowed: Option<Arc<AllowList>>,
}

#[derive(Clone)]
enum Scheme {
    /// Unsigned deliveries, by the operator's word.
    None,
    Header(Box<HeaderScheme>),
    Token(Box<TokenScheme>),
    Twilio(Box<TwilioScheme>),
    Adyen(Box<AdyenScheme>),
    Mailgun(Box<MailgunScheme>),
    PayPal(Box<PayPalScheme>),
    Client(Box<ClientScheme>),
    AllOf(Vec<Verifier>),
    AnyOf(Vec<Verifier>),
}

/// What is known of a delivery that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Which of the secrets signed it, in the order of the configuration (those of `all_of` and
    /// `any_of` one after another); `None` when the scheme has no secrets.
    pub secret_index: Option<usize>,
    /// The time that the sender signed, for schemes that sign one.
    pub timestamp: Option<DateTime<Utc>>,
}

impl Verifier {
    /// The names of all schemes.
    pub fn schemes() -> impl Iterator<Item = &'static str> {
        build::GENERIC.into_iter().chain(Preset::all().map(|preset| preset.scheme))
    }

    /// Whether who is at the other end of the connection may send at all. Behind a proxy that is
    /// trusted, its `X-Forwarded-For` is believed.
    ///
    /// # Errors
    /// Why not, for the operator: the sender is told nothing.
    pub fn check_address(&self, peer: Option<IpAddr>, request: &RawRequest) -> Result<(), Refusal> {
        self.allowed.as_ref().map_or(Ok(()), |allowed| allowed.check(peer, request))
    }

    /// Gets what verifying `request` needs and is not at hand: the certificate that a delivery of
    /// PayPal names. For every other scheme there is nothing to do. A failure shows when the
    /// request is verified.
    pub async fn prepare(&self, request: &RawRequest, now: DateTime<Utc>) {
        let mut waiting = vec![self];
        while let Some(verifier) = waiting.pop() {
            match &verifier.scheme {
                Scheme::PayPal(scheme) => {
                    if let Some(url) = scheme.missing_certificate(request) {
                        scheme.certificates().fetch(&url, now).await;
                    }
                }
                Scheme::AllOf(inner) | Scheme::AnyOf(inner) => waiting.extend(inner),
                _ => {}
            }
        }
    }

    /// Whether `request` was signed with one of the secrets, near enough to `now`. A scheme that asks
    /// for the client's certificate refuses: none is known here.
    ///
    /// # Errors
    /// Why not, for the operator: the sender is told nothing.
    pub fn verify(
        &self,
        method: &str,
        request: &RawRequest,
        now: DateTime<Utc>,
    ) -> Result<Verified, Refusal> {
        self.verify_from(None, method, request, now)
    }

    /// The same for a request that came over a connection whose client showed `certificate`.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub fn verify_from(
        &self,
        certificate: Option<&ClientCertificate>,
        method: &str,
        request: &RawRequest,
        now: DateTime<Utc>,
    ) -> Result<Verified, Refusal> {
        match &self.scheme {
            Scheme::None => Ok(Verified { secret_index: None, timestamp: None }),
            Scheme::Header(scheme) => scheme.verify(method, request, now),
            Scheme::Token(scheme) => scheme.verify(request, now),
            Scheme::Twilio(scheme) => scheme.verify(request, now),
            Scheme::Adyen(scheme) => scheme.verify(request, now),
            Scheme::Mailgun(scheme) => scheme.verify(request, now),
            Scheme::PayPal(scheme) => scheme.verify(request, now),
            Scheme::Client(scheme) => scheme.verify(certificate),
            Scheme::AllOf(inner) => {
                let mut first: Option<Verified> = None;
                let mut offset = 0;
                for verifier in inner {
                    let verified = verifier.verify_from(certificate, method, request, now)?.after(offset);
                    // What names a secret or a time says more than what does not.
                    match &mut first {
                        Some(known) => known.complete(&verified),
                        None => first = Some(verified),
                    }
                    offset += verifier.secret_count();
                }
                Ok(first.unwrap_or(Verified { secret_index: None, timestamp: None }))
            }
            Scheme::AnyOf(inner) => {
                let mut refusals = Vec::with_capacity(inner.len());
                let mut offset = 0;
                for verifier in inner {
                    match verifier.verify_from(certificate, method, request, now) {
                        Ok(verified) => return Ok(verified.after(offset)),
                        Err(refusal) => refusals.push(refusal),
                    }
                    offset += verifier.secret_count();
                }
                Err(Refusal::NoneOf(refusals))
            }
        }
    }

    /// Another place to get PayPal's certificates from, and other roots.
    #[must_use]
    pub fn with_certificates(mut self, certificates: &Certificates) -> Self {
        match &mut self.scheme {
            Scheme::PayPal(scheme) => scheme.take_certificates(certificates.clone()),
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => {
                for verifier in inner {
                    *verifier = verifier.clone().with_certificates(certificates);
                }
            }
            _ => {}
        }
        self
    }

    fn handshake_token(&self) -> Option<&Secret> {
        match &self.scheme {
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => inner.iter().find_map(Self::handshake_token),
            _ => self.handshake_token.as_ref(),
        }
    }

    /// HMAC of `text` in hex, with the secret of this index.
    fn keyed_hash(&self, index: usize, text: &[u8]) -> Option<String> {
        match &self.scheme {
            Scheme::Header(scheme) => scheme.keyed_hash(index, text),
            Scheme::AllOf(inner) | Scheme::AnyOf(inner) => {
                let mut index = index;
                for verifier in inner {
                    if index < verifier.secret_count() {
                        return verifier.keyed_hash(index, text);
                    }
                    index -= verifier.secret_count();
                }
                None
            }
            _ => None,
        }
    }
}

impl Verified {
    /// The same, where the secrets of other schemes come first.
    fn after(self, secrets: usize) -> Self {
        Self { secret_index: self.secret_index.map(|index| index + secrets), ..self }
    }

    /// Takes over what is not known here.
    fn complete(&mut self, other: &Self) {
        self.secret_index = self.secret_index.or(other.secret_index);
        self.timestamp = self.timestamp.or(other.timestamp);
    }
}

impl fmt::Debug for Verifier {
    /// Keys never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({})", self.name)
    }
}

/// Whether `name` is a token of RFC 9110, which header names are.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests;
