//! Whether the knobs of the engine make sense together, in words for the operator.

use std::time::Duration;

use super::config::VerifyConfigError;
use super::engine::{Place, Timestamp};
use super::knobs::{Kind, Knobs, TimestampKnob};
use super::template::Part;
use super::timestamp::Window;
use crate::json_pointer::JsonPointer;

/// Longest tolerance: longer, a timestamp protects from nothing.
const MAX_TOLERANCE: Duration = Duration::from_hours(7 * 24);

pub(super) fn bad(key: &'static str, problem: impl Into<String>) -> VerifyConfigError {
    VerifyConfigError::BadKnob { key, problem: problem.into() }
}

pub(super) fn header_name(key: &'static str, name: &str) -> Result<String, VerifyConfigError> {
    if super::is_header_name(name) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(bad(key, "is not the name of a header"))
}

pub(super) fn printable(key: &'static str, text: &str) -> Result<String, VerifyConfigError> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(text.to_owned());
    }
    Err(bad(key, "is not printable ASCII"))
}

pub(super) fn field_name(key: &'static str, name: &str) -> Result<String, VerifyConfigError> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=') {
        return Ok(name.to_owned());
    }
    Err(bad(key, "is not the name of a field"))
}

/// The address that the sender posts to.
pub(super) fn url(url: &str) -> Result<String, VerifyConfigError> {
    if url.contains(['?', '#']) {
        return Err(bad("url", "has a query; leave it out, the query of each request is appended"));
    }
    printable("url", url)
}

pub(super) fn separator(knobs: &Knobs<'_>) -> Result<Option<u8>, VerifyConfigError> {
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

pub(super) fn timestamp(knobs: &Knobs<'_>, place: TimestampKnob<'_>) -> Result<Timestamp, VerifyConfigError> {
    let window = Window { past: knobs.past, future: knobs.future };
    self::window(window)?;
    let place = match place {
        TimestampKnob::Header(name) => Place::Header(header_name("timestamp_header", name)?),
        TimestampKnob::Field(_) if knobs.signature_field.is_none() => {
            return Err(VerifyConfigError::Missing {
                key: "signature_field",
                way_out: "a header with a timestamp field has a name for the signature too, such as \"v1\"",
            });
        }
        TimestampKnob::Field(name) if Some(name) == knobs.signature_field => {
            return Err(bad("timestamp_field", "is the name of the signature's field too"));
        }
        TimestampKnob::Field(name) => Place::Field(field_name("timestamp_field", name)?),
        TimestampKnob::Body(pointer) => Place::Body(
            JsonPointer::parse(pointer)
                .map_err(|error| bad("timestamp_body", format!("is wrong: {error}")))?,
        ),
    };
    Ok(Timestamp { place, unit: knobs.timestamp_unit, window })
}

/// How far a timestamp may lie from our clock.
pub(super) fn window(window: Window) -> Result<(), VerifyConfigError> {
    let allowed = Duration::from_secs(1)..=MAX_TOLERANCE;
    for (key, tolerance) in [("tolerance", window.past), ("tolerance_future", window.future)] {
        if tolerance.is_some_and(|tolerance| !allowed.contains(&tolerance)) {
            return Err(bad(key, "is not between 1s and 7d"));
        }
    }
    Ok(())
}

/// Every placeholder needs something to stand for.
pub(super) fn template(knobs: &Knobs<'_>, signed: &[Part]) -> Result<(), VerifyConfigError> {
    let missing = |key, way_out| Err(VerifyConfigError::Missing { key, way_out });
    let is_sent_beside = matches!(knobs.timestamp, Some(TimestampKnob::Header(_) | TimestampKnob::Field(_)));
    if signed.contains(&Part::Timestamp) && !is_sent_beside {
        return missing(
            "timestamp_header",
            "`signed` has {timestamp}; say which header (or timestamp_field) it is in",
        );
    }
    if is_sent_beside && !signed.contains(&Part::Timestamp) {
        return Err(bad("signed", "leaves the timestamp out, so anyone could change it; add {timestamp}"));
    }
    if signed.contains(&Part::Url) && knobs.url.is_none() {
        return missing(
            "url",
            "this sender signs the address it posts to; write it as the sender knows it, such as \
             \"https://hooks.example.com/hooks/NAME\"",
        );
    }
    let holds_secret = signed.contains(&Part::Secret);
    match knobs.kind {
        Kind::Hash(_) if !holds_secret => Err(bad(
            "signed",
            "has no {secret}, so anyone could make the hash; add it where the sender puts it",
        )),
        Kind::Hmac(_) | Kind::Public(_) if holds_secret => {
            Err(bad("signed", "has {secret}, which only scheme \"hash\" knows; the key is used anyway"))
        }
        _ => Ok(()),
    }
}
