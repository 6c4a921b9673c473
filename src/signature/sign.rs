//! What a sender of a scheme would send: the other side of verifying, for messages that go on and for
//! the tools that play senders.

use chrono::{DateTime, Utc};

use super::refusal::SignError;
use super::{Scheme, Verifier};

/// A request as a sender of a scheme would send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRequest {
    /// Path and query.
    pub target: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Verifier {
    /// The headers, with lower-case names, that a sender of this scheme would send with `body`,
    /// signed with the first secret. `id` goes into the scheme's id header, if it has one.
    ///
    /// # Errors
    /// When `id` cannot stand in a header, the scheme signs a header only the sender knows, or it
    /// changes the body.
    pub fn sign(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<Vec<(String, String)>, SignError> {
        let signed = self.sign_request(method, target, body, id, now)?;
        if signed.body != body || signed.target != target {
            return Err(SignError::NotHeadersAlone);
        }
        Ok(signed.headers)
    }

    /// The request that a sender of this scheme would send: with headers, and for some with another
    /// body or query. Of `all_of` every scheme signs, of `any_of` the first.
    ///
    /// # Errors
    /// As [`sign`](Self::sign), or when the body does not fit the scheme.
    pub fn sign_request(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<SignedRequest, SignError> {
        let mut signed =
            SignedRequest { target: target.to_owned(), headers: Vec::new(), body: body.to_vec() };
        match &self.scheme {
            Scheme::None => {}
            Scheme::Client(_) => return Err(SignError::ProvenByConnection),
            Scheme::Header(scheme) => signed.headers = scheme.sign(method, target, body, id, now)?,
            Scheme::Token(scheme) => signed.headers = scheme.sign(now)?,
            Scheme::Twilio(scheme) => (signed.target, signed.headers) = scheme.sign(target, body, now)?,
            Scheme::Adyen(scheme) => signed.body = scheme.sign(body, now)?,
            Scheme::Mailgun(scheme) => signed.body = scheme.sign(body, id, now)?,
            Scheme::PayPal(scheme) => signed.headers = scheme.sign(body, id, now)?,
            Scheme::AllOf(inner) => {
                for verifier in inner.iter().filter(|verifier| !matches!(verifier.scheme, Scheme::Client(_)))
                {
                    let next = verifier.sign_request(method, &signed.target, &signed.body, id, now)?;
                    signed.headers.extend(next.headers);
                    (signed.target, signed.body) = (next.target, next.body);
                }
            }
            Scheme::AnyOf(inner) => {
                if let Some(first) = inner.first() {
                    return first.sign_request(method, target, body, id, now);
                }
            }
        }
        Ok(signed)
    }
}
