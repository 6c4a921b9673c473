//! One engine for every sender that puts a signature of its message in a header.
//!
//! What differs between senders is data ([`Knobs`]). Every header it reads must be sent exactly
//! once, be printable ASCII and not empty; parsing never panics, whatever the bytes. The body is
//! hashed where it lies.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Verified;
use super::config::{Encoding, TimestampUnit, VerifyConfigError};
use super::json;
use super::key::{self, Dated};
use super::knob_check::{self, header_name};
use super::knobs::Knobs;
use super::reading::{entries, single};
use super::refusal::{Refusal, SignError};
use super::signing_key::{Key, Signature, keys};
use super::template::{self, Part};
use super::timestamp::{self, Window};
use crate::event::RawRequest;
use crate::json_pointer::JsonPointer;

/// Most signatures read from one header. Senders send one for each secret that is still valid.
pub const MAX_SIGNATURES: usize = 16;

/// A verifier of the family, keys worked in.
#[derive(Clone)]
pub(super) struct HeaderScheme {
    header: String,
    encoding: Encoding,
    separator: Option<u8>,
    signature_field: Option<String>,
    timestamp: Option<Timestamp>,
    id_header: Option<String>,
    signed: Vec<Part>,
    url: String,
    other_names: Option<(String, String)>,
    decoy_field: Option<&'static str>,
    sent_fields: &'static [(&'static str, &'static str)],
    keys: Vec<Key>,
}

#[derive(Clone)]
pub(super) struct Timestamp {
    pub(super) place: Place,
    pub(super) unit: TimestampUnit,
    pub(super) window: Window,
}

#[derive(Clone)]
pub(super) enum Place {
    Header(String),
    Field(String),
    Body(JsonPointer),
}

/// What the parts of the signed text are for one message.
struct Message<'a> {
    method: &'a str,
    target: &'a str,
    body: &'a [u8],
    timestamp: &'a str,
    /// Only where the template has it.
    json_body: String,
}

/// A part whose text stands elsewhere in the request.
enum Elsewhere<'a> {
    Header(&'a str),
    Field(&'a str),
}

impl HeaderScheme {
    /// Checks that the knobs fit together, and works the keys in.
    pub(super) fn new(
        scheme: &'static str,
        knobs: &Knobs<'_>,
        secrets: &[Dated],
    ) -> Result<Self, VerifyConfigError> {
        let id_header = knobs.id_header.map(|name| header_name("id_header", name)).transpose()?;
        let signed = template::parse(knobs.signed, id_header.as_deref())?;
        let separator = knob_check::separator(knobs)?;
        let timestamp = knobs.timestamp.map(|place| knob_check::timestamp(knobs, place)).transpose()?;
        knob_check::template(knobs, &signed)?;
        Ok(Self {
            header: header_name("header", knobs.header)?,
            encoding: knobs.encoding,
            separator,
            signature_field: knobs
                .signature_field
                .map(|field| knob_check::field_name("signature_field", field))
                .transpose()?,
            timestamp,
            id_header,
            signed,
            url: knobs.url.map_or(Ok(String::new()), knob_check::url)?,
            other_names: knobs.other_names.map(|(usual, other)| (usual.to_owned(), other.to_owned())),
            decoy_field: knobs.decoy_field,
            sent_fields: knobs.sent_fields,
            keys: keys(scheme, knobs, secrets)?,
        })
    }

    /// How long after a delivery was signed it can still be accepted, from both sides of the
    /// window: a captured delivery can be repeated for that long.
    pub(super) fn replay_window(&self) -> Option<Duration> {
        let window = self.timestamp.as_ref()?.window;
        Some(window.past? + window.future?)
    }

    pub(super) fn secret_count(&self) -> usize {
        self.keys.len()
    }

    /// HMAC of `text` in hex, with the key of this index.
    pub(super) fn keyed_hash(&self, index: usize, text: &[u8]) -> Option<String> {
        self.keys.get(index)?.keyed_hash(text)
    }

    /// Whether a header is part of what is signed, under either of its names.
    pub(super) fn signs_header(&self, name: &str) -> bool {
        self.signed.iter().any(|part| match (part, &self.timestamp) {
            (Part::Header(signed), _) => self.is_called(signed, name),
            (Part::Timestamp, Some(Timestamp { place: Place::Header(signed), .. })) => {
                self.is_called(signed, name)
            }
            _ => false,
        })
    }

    /// Whether a header carries the signature, under either of its names.
    pub(super) fn is_proof(&self, name: &str) -> bool {
        self.is_called(&self.header, name)
    }

    fn is_called(&self, header: &str, name: &str) -> bool {
        let other = self.other_names.as_ref().and_then(|(usual, other)| {
            header.strip_prefix(usual.as_str()).map(|rest| [other, rest].concat())
        });
        header == name || other.is_some_and(|other| other == name)
    }

    /// The headers it reads.
    pub(super) fn headers(&self) -> Vec<&str> {
        let mut names = vec![self.header.as_str()];
        if let Some(Timestamp { place: Place::Header(name), .. }) = &self.timestamp {
            names.push(name);
        }
        names.extend(self.signed.iter().filter_map(|part| match part {
            Part::Header(name) => Some(name.as_str()),
            _ => None,
        }));
        names
    }

    pub(super) fn verify(
        &self,
        method: &str,
        request: &RawRequest,
        now: DateTime<Utc>,
    ) -> Result<Verified, Refusal> {
        let signatures = self.single(request, &self.header)?;
        let count = self.check_signatures(signatures)?;
        let (timestamp_text, mut timestamp) = self.sent_timestamp(request, signatures, now)?;
        let json_body = self.json_body(&request.body).ok_or(Refusal::BodyUnsigned {
            problem: "it is not UTF-8, and this sender signs it as a text",
        })?;
        let message = Message {
            method,
            target: &request.target,
            body: &request.body,
            timestamp: timestamp_text,
            json_body,
        };
        let mut expired = None;
        for (secret_index, key) in self.keys.iter().enumerate() {
            let parts = self.parts(key, &message, |part| match part {
                Elsewhere::Header(name) => self.single(request, name),
                Elsewhere::Field(name) => self.field(signatures, name),
            })?;
            if !key.matches(&parts, self.decoded(key, signatures)) {
                continue;
            }
            if let (true, Some(not_after)) = (key::is_over(key.not_after, now), key.not_after) {
                expired.get_or_insert(Refusal::ExpiredSecret { number: secret_index + 1, not_after });
                continue;
            }
            if let Some(rule @ Timestamp { place: Place::Body(pointer), .. }) = &self.timestamp {
                timestamp = Some(rule.in_body(pointer, &request.body, now)?);
            }
            return Ok(Verified { secret_index: Some(secret_index), timestamp });
        }
        Err(expired.unwrap_or(Refusal::NoMatch { secrets: self.keys.len(), signatures: count }))
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
        let json_body =
            self.json_body(body).ok_or(SignError::UnfitBody { problem: "the body is not UTF-8" })?;
        let message = Message { method, target, body, timestamp: &timestamp, json_body };
        let mut usable = self.keys.iter().filter(|key| !key::is_over(key.not_after, now));
        let key = usable.next().ok_or(SignError::AllExpired)?;
        let parts = self.parts(key, &message, |part| match part {
            Elsewhere::Header(name) if self.id_header.as_deref() == Some(name) => Ok(id),
            Elsewhere::Header(name) => Err(SignError::NeedsHeader { header: name.to_owned() }),
            Elsewhere::Field(name) => {
                let sent = self.sent_fields.iter().find(|(sent, _)| *sent == name);
                sent.map(|(_, value)| *value).ok_or_else(|| SignError::NeedsField { field: name.to_owned() })
            }
        })?;
        let signature = format!("{}{}", key.prefix, key.sign(&parts, self.encoding)?);
        Ok(self.signed_headers(id, timestamp, signature))
    }

    fn signed_headers(&self, id: &str, timestamp: String, signature: String) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if let Some(name) = &self.id_header {
            headers.push((name.clone(), id.to_owned()));
        }
        let mut fields = Vec::new();
        match self.timestamp.as_ref().map(|rule| &rule.place) {
            Some(Place::Header(name)) => headers.push((name.clone(), timestamp)),
            Some(Place::Field(name)) => fields.push(format!("{name}={timestamp}")),
            Some(Place::Body(_)) | None => {}
        }
        fields.extend(self.sent_fields.iter().map(|(name, value)| format!("{name}={value}")));
        fields.push(match &self.signature_field {
            Some(field) => format!("{field}={signature}"),
            None => signature,
        });
        let separator = self.separator.map_or(String::new(), |separator| char::from(separator).to_string());
        headers.push((self.header.clone(), fields.join(&separator)));
        headers
    }

    /// The timestamp as it was sent, and as a time; a timestamp in the body comes later, when the
    /// body is known to be the sender's.
    fn sent_timestamp<'r>(
        &self,
        request: &'r RawRequest,
        signatures: &'r str,
        now: DateTime<Utc>,
    ) -> Result<(&'r str, Option<DateTime<Utc>>), Refusal> {
        let Some(rule) = &self.timestamp else { return Ok(("", None)) };
        let (text, header) = match &rule.place {
            Place::Header(name) => (self.single(request, name)?, name),
            Place::Field(name) => (self.field(signatures, name)?, &self.header),
            Place::Body(_) => return Ok(("", None)),
        };
        let at = timestamp::parse(text.as_bytes(), rule.unit)
            .map_err(|problem| Refusal::MalformedHeader { header: header.clone(), problem })?;
        rule.window.check(at, now, rule.unit)?;
        Ok((text, Some(at)))
    }

    /// The body as a JSON string, if the template has it; `None` when it cannot be one.
    fn json_body(&self, body: &[u8]) -> Option<String> {
        if !self.signed.contains(&Part::JsonBody) {
            return Some(String::new());
        }
        serde_json::to_string(std::str::from_utf8(body).ok()?).ok()
    }

    fn parts<'m, E>(
        &'m self,
        key: &'m Key,
        message: &'m Message<'_>,
        elsewhere: impl Fn(Elsewhere<'_>) -> Result<&'m str, E>,
    ) -> Result<Vec<&'m [u8]>, E> {
        let mut parts = Vec::with_capacity(self.signed.len() + 1);
        for part in &self.signed {
            let text = match part {
                Part::Literal(text) => text.as_bytes(),
                Part::Body => message.body,
                Part::Timestamp => message.timestamp.as_bytes(),
                Part::Header(name) => elsewhere(Elsewhere::Header(name))?.as_bytes(),
                Part::Field(name) => elsewhere(Elsewhere::Field(name))?.as_bytes(),
                Part::Method => message.method.as_bytes(),
                Part::JsonBody => message.json_body.as_bytes(),
                Part::Secret => key.secret(),
                Part::Url => {
                    parts.push(self.url.as_bytes());
                    let query = message.target.find('?').unwrap_or(message.target.len());
                    &message.target.as_bytes()[query..]
                }
            };
            parts.push(text);
        }
        Ok(parts)
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
        for (index, key) in self.keys.iter().enumerate() {
            if self.keys[..index].iter().any(|earlier| earlier.prefix == key.prefix) {
                continue;
            }
            for text in self.candidates(key, header) {
                count += 1;
                if count > MAX_SIGNATURES {
                    return Err(Refusal::TooManySignatures {
                        header: self.header.clone(),
                        limit: MAX_SIGNATURES,
                    });
                }
                match key.decode(text, self.encoding) {
                    Ok(_) => decodable = true,
                    Err(reason) => problem = reason,
                }
            }
        }
        match self.decoy_field {
            _ if decodable => Ok(count),
            Some(field) if count == 0 && self.fields(header, field).next().is_some() => {
                Err(Refusal::TestModeOnly { header: self.header.clone(), field })
            }
            _ => Err(malformed(problem)),
        }
    }

    /// The encoded signatures in the header; what has another version or prefix is passed over.
    fn candidates<'h>(&'h self, key: &'h Key, header: &'h str) -> impl Iterator<Item = &'h str> {
        entries(header, self.separator).filter_map(|entry| {
            let value = match &self.signature_field {
                None => entry,
                Some(field) => entry.split_once('=').filter(|(name, _)| name == field)?.1,
            };
            value.strip_prefix(key.prefix.as_str())
        })
    }

    fn decoded<'h>(&'h self, key: &'h Key, header: &'h str) -> impl Iterator<Item = Signature> {
        self.candidates(key, header).filter_map(|text| key.decode(text, self.encoding).ok())
    }

    fn fields<'h>(&'h self, header: &'h str, name: &'h str) -> impl Iterator<Item = &'h str> {
        entries(header, self.separator)
            .filter_map(move |entry| entry.split_once('=').filter(|(n, _)| *n == name))
            .map(|(_, value)| value)
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

    /// A header by its name or, where the sender has two names for it, by the other.
    fn single<'r>(&self, request: &'r RawRequest, name: &str) -> Result<&'r str, Refusal> {
        if let Some((usual, other)) = &self.other_names
            && let Some(rest) = name.strip_prefix(usual.as_str())
            && !request.headers.contains(name)
        {
            let other = format!("{other}{rest}");
            if request.headers.contains(&other) {
                return single(request, &other);
            }
        }
        single(request, name)
    }
}

impl Timestamp {
    fn in_body(
        &self,
        pointer: &JsonPointer,
        body: &[u8],
        now: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, Refusal> {
        let unreadable = |problem| Refusal::UnreadableBody { problem };
        let root = json::root(body).map_err(unreadable)?;
        let text = pointer.find(root).and_then(json::scalar);
        let text = text.ok_or(unreadable("it has no timestamp where this sender puts it"))?;
        let at = timestamp::parse(text.as_bytes(), self.unit).map_err(unreadable)?;
        self.window.check(at, now, self.unit)?;
        Ok(at)
    }
}
