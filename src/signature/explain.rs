//! What verification does with a captured request, step by step, for the operator.
//!
//! Beyond the verdict it tries the mistakes people make: a body that was changed in a known way, a
//! secret that is written in another form. Shows no secret, no signature and nothing of the body.

use std::net::IpAddr;

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{Refusal, Scheme, Verified, Verifier};
use crate::event::RawRequest;

/// Bytes that are added to or removed from the end of bodies on their way.
const ENDINGS: [(&[u8], &str); 3] = [(b"\r\n", "CR LF"), (b"\n", "a newline"), (b" ", "a blank")];

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `None`: neither good nor bad, only said.
    pub is_good: Option<bool>,
    pub text: String,
}

/// All that was looked at, and what came of it.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub steps: Vec<Step>,
    pub verdict: Result<Verified, Refusal>,
}

impl Explanation {
    fn say(&mut self, is_good: Option<bool>, text: impl Into<String>) {
        self.steps.push(Step { is_good, text: text.into() });
    }
}

impl Verifier {
    /// What verification does with `request`. `peer` is the other end of the connection, if known.
    #[must_use]
    pub fn explain(
        &self,
        method: &str,
        request: &RawRequest,
        peer: Option<IpAddr>,
        now: DateTime<Utc>,
    ) -> Explanation {
        let verdict = self.verify(method, request, now);
        let mut explanation = Explanation { steps: Vec::new(), verdict };
        self.describe(request, &mut explanation);
        if self.allowed.is_some() {
            match self.check_address(peer, request) {
                Ok(()) => explanation.say(Some(true), "the sender's address is in allow_ips"),
                Err(Refusal::NoAddress) => {
                    explanation
                        .say(None, "allow_ips is set; the request file does not say where it came from");
                }
                Err(refusal) => explanation.say(Some(false), refusal.to_string()),
            }
        }
        match explanation.verdict.clone() {
            Ok(verified) => {
                if let Some(at) = verified.timestamp {
                    let age = (now - at).num_seconds();
                    explanation.say(Some(true), format!("the signed time is {at}, {age} s ago"));
                }
                let by = match verified.secret_index {
                    Some(index) => format!("signed with secret {} of {}", index + 1, self.secret_count()),
                    None => "accepted".to_owned(),
                };
                explanation.say(Some(true), by);
            }
            Err(refusal) => {
                explanation.say(Some(false), refusal.to_string());
                if refusal == Refusal::NoClientCertificate {
                    explanation.say(None, "a request file does not say which certificate the client showed; the ledger does (hooklatch events list --outcome unverified)");
                }
                self.look_for_mistakes(method, request, now, &refusal, &mut explanation);
            }
        }
        explanation
    }

    fn describe(&self, request: &RawRequest, explanation: &mut Explanation) {
        let way = self.preset().map_or_else(String::new, |preset| format!(": {}", preset.way_in_words()));
        explanation.say(
            None,
            format!(
                "scheme {}{way}; {} secret(s); a body of {} bytes",
                self.name,
                self.secret_count(),
                request.body.len()
            ),
        );
        for name in self.headers() {
            let count = request.header_values(name).count();
            let (is_good, what) = match count {
                0 => (false, "is not there"),
                1 => (true, "is there"),
                _ => (false, "is there more than once"),
            };
            explanation.say(Some(is_good), format!("header `{name}` {what}"));
        }
    }

    /// The headers that are read, for schemes where it is always the same ones.
    fn headers(&self) -> Vec<&str> {
        match &self.scheme {
            Scheme::Header(scheme) => scheme.headers(),
            Scheme::Token(scheme) => vec![scheme.header()],
            Scheme::Twilio(scheme) => scheme.headers(),
            Scheme::PayPal(scheme) => scheme.headers(),
            Scheme::AllOf(inner) => inner.iter().flat_map(Self::headers).collect(),
            Scheme::None | Scheme::Adyen(_) | Scheme::Mailgun(_) | Scheme::Client(_) | Scheme::AnyOf(_) => {
                Vec::new()
            }
        }
    }

    fn look_for_mistakes(
        &self,
        method: &str,
        request: &RawRequest,
        now: DateTime<Utc>,
        refusal: &Refusal,
        explanation: &mut Explanation,
    ) {
        match refusal {
            Refusal::TooOld { age_seconds, .. } | Refusal::InFuture { ahead_seconds: age_seconds, .. } => {
                let then = match refusal {
                    Refusal::TooOld { .. } => now - chrono::TimeDelta::seconds(*age_seconds),
                    _ => now + chrono::TimeDelta::seconds(*age_seconds),
                };
                let text = match self.verify(method, request, then) {
                    Ok(_) => "at the time it was signed it would be accepted: only its age is wrong",
                    Err(_) => "even at the time it was signed it would be refused",
                };
                explanation.say(None, text);
            }
            Refusal::NoMatch { .. } | Refusal::NoneOf(_) | Refusal::BodyDiffers { .. } => {
                for (body, how) in variants(&request.body) {
                    let changed = RawRequest { body, ..request.clone() };
                    if self.verify(method, &changed, now).is_ok() {
                        explanation.say(None, format!(
                            "with {how} it would be accepted: something on the way, or the capture, changed the body"
                        ));
                        return;
                    }
                }
                explanation.say(None, "no usual change of the body (newline, blank, byte order mark) explains it: look at the secret first");
            }
            _ => {}
        }
    }
}

/// The body as it may have been before something changed it.
fn variants(body: &Bytes) -> Vec<(Bytes, String)> {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let mut variants = Vec::new();
    for (ending, name) in ENDINGS {
        variants.push((Bytes::from([body, ending].concat()), format!("{name} at its end")));
        if let Some(shorter) = body.strip_suffix(ending) {
            variants.push((Bytes::copy_from_slice(shorter), format!("{name} less at its end")));
        }
    }
    if let Some(rest) = body.strip_prefix(BOM) {
        variants.push((Bytes::copy_from_slice(rest), "its byte order mark removed".to_owned()));
    }
    if let Ok(json) = serde_json::from_slice::<&serde_json::value::RawValue>(body)
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(json.get())
    {
        variants.push((Bytes::from(value.to_string()), "its JSON written compactly".to_owned()));
    }
    variants
}
