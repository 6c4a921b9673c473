//! The HMAC family: one engine for every sender that puts a keyed hash of its message in a header.
//!
//! What differs between senders is data ([`Knobs`]). Every header it reads must be sent exactly
//! once, be printable ASCII and not empty; parsing never panics, whatever the bytes. The body is
//! hashed where it lies.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::config::{Encoding, Hash, SecretEncoding, TimestampUnit, VerifyConfigError};
use super::mac::{KeyedMac, Tag};
use super::refusal::{Refusal, SignError};
use super::template::{self, Part};
use super::timestamp::{self, Window};
use super::{Verified, key};
use crate::event::RawRequest;
use crate::secret::Secret;

/// Most signatures read from one header. Senders send one for each secret that is still valid.
pub const MAX_SIGNATURES: usize = 16;

/// Most secrets of one source: each costs a hash of the body on a delivery that nobody signed.
pub const MAX_SECRETS: usize = 8;

/// Longest tolerance: longer, a timestamp protects from nothing.
const MAX_TOLERANCE: Duration = Duration::from_hours(7 * 24);

/// How a sender of the family signs, in the words of the configuration.
pub(super) struct Knobs<'a> {
    pub(super) header: &'a str,
    pub(super) prefix: &'a str,
    pub(super) hash: Hash,
    pub(super) encoding: Encoding,
    pub(super) separator: Option<&'a str>,
    pub(super) signature_field: Option<&'a str>,
    pub(super) timestamp: Option<TimestampKnob<'a>>,
    pub(super) timestamp_unit: TimestampUnit,
    pub(super) past: Duration,
    /// `None`: any future is accepted.
    pub(super) future: Option<Duration>,
    pub(super) id_header: Option<&'a str>,
    pub(super) signed: &'a str,
    pub(super) url: Option<&'a str>,
    pub(super) secret_encoding: SecretEncoding,
    pub(super) secret_prefix: &'a str,
}

/// Where the timestamp stands.
#[derive(Clone, Copy)]
pub(super) enum TimestampKnob<'a> {
    Header(&'a str),
    /// In the signature's header, beside it.
    Field(&'a str),
}

/// A verifier of the family, keys worked in.
#[derive(Clone)]
pub(super) struct HmacScheme {
    header: String,
    prefix: String,
    hash: Hash,
    encoding: Encoding,
    separator: Option<u8>,
    signature_field: Option<String>,
    timestamp: Option<Timestamp>,
    id_header: Option<String>,
    signed: Vec<Part>,
    url: String,
    keys: Vec<KeyedMac>,
}

#[derive(Clone)]
struct Timestamp {
    /// A field of the signature's header; else a header of this name.
    in_field: bool,
    name: String,
    unit: TimestampUnit,
    window: Window,
}

/// What the parts of the signed text are for one message.
struct Message<'a> {
    method: &'a str,
    target: &'a str,
    body: &'a [u8],
    timestamp: &'a str,
}

impl HmacScheme {
    /// Checks that the knobs fit together, and works the keys in.
    pub(super) fn new(
        scheme: &'static str,
        knobs: &Knobs<'_>,
        secrets: Vec<Secret>,
    ) -> Result<Self, VerifyConfigError> {
        let id_header = knobs.id_header.map(|name| header_name("id_header", name)).transpose()?;
        let signed = template::parse(knobs.signed, id_header.as_deref())?;
        let separator = separator(knobs)?;
        let timestamp = knobs.timestamp.map(|place| timestamp_rule(knobs, place)).transpose()?;
        check_template(knobs, &signed)?;
        Ok(Self {
            header: header_name("header", knobs.header)?,
            prefix: printable("prefix", knobs.prefix)?,
            hash: knobs.hash,
            encoding: knobs.encoding,
            separator,
            signature_field: knobs.signature_field.map(|f| field_name("signature_field", f)).transpose()?,
            timestamp,
            id_header,
            signed,
            url: knobs.url.map_or(Ok(String::new()), |url| {
                if url.contains(['?', '#']) {
                    return Err(bad(
                        "url",
                        "has a query; leave it out, the query of each request is appended",
                    ));
                }
                printable("url", url)
            })?,
            keys: keys(scheme, knobs, secrets)?,
        })
    }

    /// How long after a delivery was signed it can still be accepted, from both sides of the
    /// window: a captured delivery can be repeated for that long.
    pub(super) fn replay_window(&self) -> Option<Duration> {
        let window = self.timestamp.as_ref()?.window;
        Some(window.past + window.future?)
    }

    pub(super) fn verify(
        &self,
        method: &str,
        request: &RawRequest,
        now: DateTime<Utc>,
    ) -> Result<Verified, Refusal> {
        let signatures = single(request, &self.header)?;
        let count = self.check_signatures(signatures)?;
        let (timestamp_text, timestamp) = match &self.timestamp {
            None => ("", None),
            Some(rule) => {
                let text = if rule.in_field {
                    self.field(signatures, &rule.name)?
                } else {
                    single(request, &rule.name)?
                };
                let place = if rule.in_field { &self.header } else { &rule.name };
                let at = timestamp::parse(text.as_bytes(), rule.unit)
                    .map_err(|problem| Refusal::MalformedHeader { header: place.clone(), problem })?;
                rule.window.check(at, now, rule.unit)?;
                (text, Some(at))
            }
        };
        let message =
            Message { method, target: &request.target, body: &request.body, timestamp: timestamp_text };
        for (secret_index, key) in self.keys.iter().enumerate() {
            let tag = self.tag(key, &message, |name| single(request, name))?;
            let matched = self
                .candidates(signatures)
                .filter_map(|text| Tag::decode(text.as_bytes(), self.encoding, self.hash).ok())
                .any(|candidate| tag.matches(&candidate));
            if matched {
                return Ok(Verified { secret_index: Some(secret_index), timestamp });
            }
        }
        Err(Refusal::NoMatch { secrets: self.keys.len(), signatures: count })
    }

    pub(super) fn sign(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        id: &str,
        now: DateTime<Utc>,
    ) -> Result<Vec<(String, String)>, SignError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SignError::BadId);
        }
        let timestamp =
            self.timestamp.as_ref().map_or(String::new(), |rule| timestamp::format(now, rule.unit));
        let message = Message { method, target, body, timestamp: &timestamp };
        let key = self.keys.first().expect("a verifier is built with at least one key");
        let tag = self.tag(key, &message, |header| {
            if self.id_header.as_deref() == Some(header) {
                return Ok(id);
            }
            Err(SignError::NeedsHeader { header: header.to_owned() })
        })?;
        let mut signature = format!("{}{}", self.prefix, tag.encode(self.encoding));
        if let Some(field) = &self.signature_field {
            signature = format!("{field}={signature}");
        }
        let mut headers = Vec::new();
        if let Some(name) = &self.id_header {
            headers.push((name.clone(), id.to_owned()));
        }
        match (&self.timestamp, self.separator) {
            (Some(rule), Some(separator)) if rule.in_field => {
                signature = format!("{}={timestamp}{}{signature}", rule.name, char::from(separator));
            }
            (Some(rule), _) => headers.push((rule.name.clone(), timestamp)),
            (None, _) => {}
        }
        headers.push((self.header.clone(), signature));
        Ok(headers)
    }

    fn tag<'h, E>(
        &self,
        key: &KeyedMac,
        message: &Message<'_>,
        header: impl Fn(&str) -> Result<&'h str, E>,
    ) -> Result<Tag, E> {
        let mut mac = key.clone();
        for part in &self.signed {
            match part {
                Part::Literal(text) => mac.update(text.as_bytes()),
                Part::Body => mac.update(message.body),
                Part::Timestamp => mac.update(message.timestamp.as_bytes()),
                Part::Header(name) => mac.update(header(name)?.as_bytes()),
                Part::Method => mac.update(message.method.as_bytes()),
                Part::Url => {
                    mac.update(self.url.as_bytes());
                    if let Some(at) = message.target.find('?') {
                        mac.update(&message.target.as_bytes()[at..]);
                    }
                }
            }
        }
        Ok(mac.finish())
    }

    /// Checks everything about the signature header that needs no key; returns how many
    /// signatures of the configured kind it holds. One that cannot be decoded beside others is
    /// passed over, as the senders' own libraries do; when none can, the header is malformed.
    fn check_signatures(&self, header: &str) -> Result<usize, Refusal> {
        let malformed = |problem| Refusal::MalformedHeader { header: self.header.clone(), problem };
        if self.signature_field.is_some() && entries(header, self.separator).any(|e| !e.contains('=')) {
            return Err(malformed("not every part of it is `name=value`"));
        }
        let mut count = 0;
        let mut decodable = false;
        let mut problem = "it carries no signature of the configured kind (prefix, version or field)";
        for text in self.candidates(header) {
            count += 1;
            match Tag::decode(text.as_bytes(), self.encoding, self.hash) {
                Ok(_) => decodable = true,
                Err(reason) => problem = reason,
            }
        }
        if count > MAX_SIGNATURES {
            return Err(Refusal::TooManySignatures { header: self.header.clone(), limit: MAX_SIGNATURES });
        }
        if decodable { Ok(count) } else { Err(malformed(problem)) }
    }

    /// The encoded signatures in the header; what has another version or prefix is passed over.
    fn candidates<'h>(&'h self, header: &'h str) -> impl Iterator<Item = &'h str> {
        entries(header, self.separator).filter_map(|entry| {
            let value = match &self.signature_field {
                None => entry,
                Some(field) => entry.split_once('=').filter(|(name, _)| name == field)?.1,
            };
            value.strip_prefix(self.prefix.as_str())
        })
    }

    /// The one field `name` of the signature header.
    fn field<'h>(&self, header: &'h str, name: &str) -> Result<&'h str, Refusal> {
        let mut values = entries(header, self.separator)
            .filter_map(|entry| entry.split_once('=').filter(|(n, _)| *n == name).map(|(_, value)| value));
        let place = || (self.header.clone(), name.to_owned());
        let Some(value) = values.next() else {
            let (header, field) = place();
            return Err(Refusal::MissingField { header, field });
        };
        if values.next().is_some() {
            let (header, field) = place();
            return Err(Refusal::RepeatedField { header, field });
        }
        Ok(value)
    }
}

/// The parts of a header value, without the blanks around them; the whole value when there is no
/// separator. Where the separator is a blank, several count as one.
fn entries(header: &str, separator: Option<u8>) -> impl Iterator<Item = &str> {
    let pieces = header.split(move |c| separator.is_some_and(|s| c == char::from(s)));
    pieces
        .map(move |piece| if separator.is_some() { piece.trim_matches([' ', '\t']) } else { piece })
        .filter(move |piece| separator != Some(b' ') || !piece.is_empty())
}

/// The value of a header that must be there once.
fn single<'r>(request: &'r RawRequest, name: &str) -> Result<&'r str, Refusal> {
    let mut values = request.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value);
    let Some(value) = values.next() else {
        return Err(Refusal::MissingHeader { header: name.to_owned() });
    };
    if values.next().is_some() {
        return Err(Refusal::RepeatedHeader { header: name.to_owned() });
    }
    let malformed = |problem| Refusal::MalformedHeader { header: name.to_owned(), problem };
    if value.is_empty() {
        return Err(malformed("it is empty"));
    }
    match std::str::from_utf8(value) {
        Ok(text) if text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) => Ok(text),
        _ => Err(malformed("it is not printable ASCII")),
    }
}

fn bad(key: &'static str, problem: impl Into<String>) -> VerifyConfigError {
    VerifyConfigError::BadKnob { key, problem: problem.into() }
}

fn header_name(key: &'static str, name: &str) -> Result<String, VerifyConfigError> {
    if super::is_header_name(name) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(bad(key, "is not the name of a header"))
}

fn printable(key: &'static str, text: &str) -> Result<String, VerifyConfigError> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(text.to_owned());
    }
    Err(bad(key, "is not printable ASCII"))
}

fn field_name(key: &'static str, name: &str) -> Result<String, VerifyConfigError> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=') {
        return Ok(name.to_owned());
    }
    Err(bad(key, "is not the name of a field"))
}

fn separator(knobs: &Knobs<'_>) -> Result<Option<u8>, VerifyConfigError> {
    let Some(text) = knobs.separator else {
        return match knobs.signature_field {
            Some(_) => Ok(Some(b',')),
            None => Ok(None),
        };
    };
    let &[byte] = text.as_bytes() else {
        return Err(bad("separator", "is not one character; blanks around it are ignored anyway"));
    };
    // Letters, digits and these may stand inside a signature or a timestamp.
    if byte.is_ascii_alphanumeric() || b"+/=-:.".contains(&byte) || !matches!(byte, b' '..=b'~') {
        return Err(bad("separator", "may stand inside a signature; use `,`, `;` or a blank"));
    }
    for (key, value) in [("prefix", Some(knobs.prefix)), ("signature_field", knobs.signature_field)] {
        if value.is_some_and(|value| value.contains(char::from(byte))) {
            return Err(bad(key, "contains the separator"));
        }
    }
    Ok(Some(byte))
}

fn timestamp_rule(knobs: &Knobs<'_>, place: TimestampKnob<'_>) -> Result<Timestamp, VerifyConfigError> {
    let allowed = Duration::from_secs(1)..=MAX_TOLERANCE;
    for (key, tolerance) in [("tolerance", Some(knobs.past)), ("tolerance_future", knobs.future)] {
        if tolerance.is_some_and(|tolerance| !allowed.contains(&tolerance)) {
            return Err(bad(key, "is not between 1s and 7d"));
        }
    }
    let (in_field, name) = match place {
        TimestampKnob::Header(name) => (false, header_name("timestamp_header", name)?),
        TimestampKnob::Field(_) if knobs.signature_field.is_none() => {
            return Err(VerifyConfigError::Missing {
                key: "signature_field",
                way_out: "a header with a timestamp field has a name for the signature too, such as \"v1\"",
            });
        }
        TimestampKnob::Field(name) => (true, field_name("timestamp_field", name)?),
    };
    if in_field && Some(name.as_str()) == knobs.signature_field {
        return Err(bad("timestamp_field", "is the name of the signature's field too"));
    }
    let window = Window { past: knobs.past, future: knobs.future };
    Ok(Timestamp { in_field, name, unit: knobs.timestamp_unit, window })
}

/// Every placeholder needs something to stand for.
fn check_template(knobs: &Knobs<'_>, signed: &[Part]) -> Result<(), VerifyConfigError> {
    let missing = |key, way_out| Err(VerifyConfigError::Missing { key, way_out });
    if signed.contains(&Part::Timestamp) && knobs.timestamp.is_none() {
        return missing(
            "timestamp_header",
            "`signed` has {timestamp}; say which header (or timestamp_field) it is in",
        );
    }
    if knobs.timestamp.is_some() && !signed.contains(&Part::Timestamp) {
        return Err(bad("signed", "leaves the timestamp out, so anyone could change it; add {timestamp}"));
    }
    if signed.contains(&Part::Url) && knobs.url.is_none() {
        return missing("url", "`signed` has {url}; write the address that the sender posts to");
    }
    Ok(())
}

fn keys(
    scheme: &'static str,
    knobs: &Knobs<'_>,
    secrets: Vec<Secret>,
) -> Result<Vec<KeyedMac>, VerifyConfigError> {
    if secrets.is_empty() {
        return Err(VerifyConfigError::NoSecret { scheme });
    }
    if secrets.len() > MAX_SECRETS {
        return Err(VerifyConfigError::TooManySecrets { count: secrets.len(), limit: MAX_SECRETS });
    }
    let mut keys = Vec::with_capacity(secrets.len());
    for (index, secret) in secrets.into_iter().enumerate() {
        let bytes = key::decode(&secret, knobs.secret_encoding, knobs.secret_prefix)
            .map_err(|problem| VerifyConfigError::BadSecret { number: index + 1, problem })?;
        keys.push(KeyedMac::new(knobs.hash, &bytes));
    }
    Ok(keys)
}
