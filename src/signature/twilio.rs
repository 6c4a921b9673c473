//! Twilio: HMAC-SHA1 over the public URL, and the body by one of two ways.
//!
//! A form's parameters follow the URL, sorted by name, each name with its values (repeated values
//! once) and nothing between them. Any other body is named in the query by its SHA-256, which the
//! URL carries into the signature. Twilio signs the URL with and without its port.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::Verified;
use super::config::{Encoding, Hash, VerifyConfigError};
use super::key::{self, Dated};
use super::knob_check;
use super::mac::{Mac, Tag, sha256};
use super::reading::{query_parameter, single};
use super::refusal::{Refusal, SignError};
use crate::envelope::{form_decode, form_pairs, is_form};
use crate::event::RawRequest;

const SIGNATURE: &str = "x-twilio-signature";
const BODY_HASH: &str = "bodySHA256";

#[derive(Clone)]
pub(super) struct TwilioScheme {
    /// The public URL as configured, without its port, and with the port of its scheme.
    urls: Vec<String>,
    keys: Vec<(Mac, Option<DateTime<Utc>>)>,
}

impl TwilioScheme {
    pub(super) fn new(
        scheme: &'static str,
        url: Option<&str>,
        secrets: &[Dated],
    ) -> Result<Self, VerifyConfigError> {
        let url = url.ok_or(VerifyConfigError::Missing {
            key: "url",
            way_out: "Twilio signs the address it posts to; write it, such as \"https://hooks.example.com/hooks/twilio\"",
        })?;
        let urls = with_and_without_port(&knob_check::url(url)?)
            .ok_or_else(|| knob_check::bad("url", "is no address; write \"https://host/path\""))?;
        let keys = key::each(scheme, secrets, |dated| {
            let key = key::decode(&dated.secret, super::config::SecretEncoding::Text, "")?;
            Ok((Mac::keyed(Hash::Sha1, &key), dated.not_after))
        })?;
        Ok(Self { urls, keys })
    }

    pub(super) fn secret_count(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn headers(&self) -> Vec<&str> {
        vec![SIGNATURE]
    }

    pub(super) fn verify(&self, request: &RawRequest, now: DateTime<Utc>) -> Result<Verified, Refusal> {
        let signature = single(request, SIGNATURE)?;
        let signature = Tag::decode(signature.as_bytes(), Encoding::Base64, Hash::Sha1)
            .map_err(|problem| Refusal::MalformedHeader { header: SIGNATURE.to_owned(), problem })?;
        let parameters = signed_parameters(request)?;
        let query = query(&request.target);
        let mut expired = None;
        for (index, (mac, not_after)) in self.keys.iter().enumerate() {
            let matched = self
                .urls
                .iter()
                .any(|url| mac.over([url.as_bytes(), query.as_bytes(), &parameters]).matches(&signature));
            match not_after {
                _ if !matched => {}
                Some(not_after) if now > *not_after => {
                    expired
                        .get_or_insert(Refusal::ExpiredSecret { number: index + 1, not_after: *not_after });
                }
                _ => return Ok(Verified { secret_index: Some(index), timestamp: None }),
            }
        }
        Err(expired.unwrap_or(Refusal::NoMatch { secrets: self.keys.len(), signatures: 1 }))
    }

    /// The target with the hash of the body, unless the body is a form; and the headers.
    pub(super) fn sign(
        &self,
        target: &str,
        body: &[u8],
        now: DateTime<Utc>,
    ) -> Result<(String, Vec<(String, String)>), SignError> {
        let mut usable = self.keys.iter().filter(|(_, not_after)| !key::is_over(*not_after, now));
        let (mac, _) = usable.next().ok_or(SignError::AllExpired)?;
        let is_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
        let (target, content_type, parameters) = if is_json {
            let joint = if target.contains('?') { '&' } else { '?' };
            let hash = sha256(body).encode(Encoding::Hex);
            (format!("{target}{joint}{BODY_HASH}={hash}"), "application/json", Vec::new())
        } else {
            (target.to_owned(), "application/x-www-form-urlencoded", sorted(body))
        };
        let url = self.urls.first().map_or("", String::as_str);
        let tag = mac.over([url.as_bytes(), query(&target).as_bytes(), &parameters]);
        let headers = vec![
            ("content-type".to_owned(), content_type.to_owned()),
            (SIGNATURE.to_owned(), tag.encode(Encoding::Base64)),
        ];
        Ok((target, headers))
    }
}

/// What of the body is signed beside the URL.
fn signed_parameters(request: &RawRequest) -> Result<Vec<u8>, Refusal> {
    if is_form(request) {
        return Ok(sorted(&request.body));
    }
    match query_parameter(&request.target, BODY_HASH) {
        Some(hash) => {
            let signed = Tag::decode(hash.as_bytes(), Encoding::Hex, Hash::Sha256)
                .map_err(|_| Refusal::BodyDiffers { place: BODY_HASH })?;
            if !sha256(&request.body).matches(&signed) {
                return Err(Refusal::BodyDiffers { place: BODY_HASH });
            }
            Ok(Vec::new())
        }
        None if request.body.is_empty() => Ok(Vec::new()),
        None => Err(Refusal::BodyUnsigned {
            problem: "it is no form, and the query has no bodySHA256 (was a query removed on the way?)",
        }),
    }
}

fn sorted(form: &[u8]) -> Vec<u8> {
    let mut parameters: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (name, value) in form_pairs(form) {
        parameters.entry(form_decode(name)).or_default().insert(form_decode(value));
    }
    let mut text = Vec::with_capacity(form.len());
    for (name, values) in &parameters {
        for value in values {
            text.extend_from_slice(name);
            text.extend_from_slice(value);
        }
    }
    text
}

fn query(target: &str) -> &str {
    target.find('?').map_or("", |at| &target[at..])
}

fn with_and_without_port(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = url.split_once("://")?;
    let default_port = match scheme {
        "https" => "443",
        "http" => "80",
        _ => return None,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host_end = authority.rfind(']').map_or(0, |at| at + 1);
    let host =
        authority.get(..host_end + authority[host_end..].find(':').unwrap_or(authority.len() - host_end))?;
    if host.is_empty() {
        return None;
    }
    let mut urls = vec![url.to_owned()];
    for other in [format!("{scheme}://{host}{path}"), format!("{scheme}://{host}:{default_port}{path}")] {
        if !urls.contains(&other) {
            urls.push(other);
        }
    }
    Some(urls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_tried_with_and_without_its_port() {
        let urls = |url| with_and_without_port(url);
        assert_eq!(
            urls("https://a.example:1234/x"),
            Some(vec![
                "https://a.example:1234/x".into(),
                "https://a.example/x".into(),
                "https://a.example:443/x".into()
            ])
        );
        assert_eq!(urls("http://[::1]/x").unwrap()[1], "http://[::1]:80/x");
        assert_eq!(urls("http://[::1]:8080").unwrap()[1], "http://[::1]");
        for bad in ["", "a.example", "ftp://a", "https://", "https:///x", "https://:1/x"] {
            assert_eq!(urls(bad), None, "{bad}");
        }
    }
}
