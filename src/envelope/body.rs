//! From the body as it came to the JSON text in it.
//!
//! Any content type is taken for JSON, except a form, which carries the JSON in one of its fields.
//! A body that is declared a form but begins as JSON does is JSON: `curl -d` declares so unasked.
//! The result is a slice of the body where that is possible.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::error::EnvelopeError;
use crate::event::RawRequest;

const FORM: &str = "application/x-www-form-urlencoded";

const NO_FIELD: &str = "has no field";

/// A byte order mark at the front, which RFC 8259 lets a reader skip.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The JSON text in the body; `form_field` is where a form carries it. A form without that field
/// is itself the event if `form_as_object`. Not checked to be UTF-8.
pub(super) fn json_text(
    request: &RawRequest,
    form_field: &str,
    form_as_object: bool,
) -> Result<Bytes, EnvelopeError> {
    refuse_encoding(request)?;
    let text = if is_form(request) && !begins_like_json(&request.body) {
        match from_form(&request.body, form_field) {
            Err(EnvelopeError::Form { problem: NO_FIELD, .. }) if form_as_object => {
                form_object(&request.body)?
            }
            field => field?,
        }
    } else {
        request.body.clone()
    };
    Ok(if text.starts_with(BOM) { text.slice(BOM.len()..) } else { text })
}

fn refuse_encoding(request: &RawRequest) -> Result<(), EnvelopeError> {
    let plain = request.header_values("content-encoding").all(|value| {
        value.split(|byte| *byte == b',').all(|coding| {
            let coding = coding.trim_ascii();
            coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")
        })
    });
    if plain { Ok(()) } else { Err(EnvelopeError::ContentEncoding) }
}

/// Whether the body is declared a form.
pub(crate) fn is_form(request: &RawRequest) -> bool {
    request.header_values("content-type").any(|value| {
        let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(FORM.as_bytes())
    })
}

/// No form does: its fields' names are percent-encoded.
fn begins_like_json(body: &[u8]) -> bool {
    let body = body.strip_prefix(BOM).unwrap_or(body);
    matches!(body.trim_ascii_start(), [b'{' | b'[', ..])
}

/// The one field of this name. Bytes are decoded strictly: nothing is replaced.
fn from_form(body: &[u8], field: &str) -> Result<Bytes, EnvelopeError> {
    let fault = |problem| EnvelopeError::Form { field: field.to_owned(), problem };
    let mut values =
        form_pairs(body).filter(|(name, _)| form_decode(name) == field.as_bytes()).map(|(_, value)| value);
    let value = values.next().ok_or_else(|| fault(NO_FIELD))?;
    if values.next().is_some() {
        return Err(fault("has more than one field"));
    }
    Ok(Bytes::from(form_decode(value)))
}

/// All fields of a form as one JSON object. A field that comes several times is a list.
fn form_object(body: &[u8]) -> Result<Bytes, EnvelopeError> {
    let text = |bytes: &[u8]| {
        String::from_utf8(form_decode(bytes))
            .map_err(|error| EnvelopeError::NotUtf8 { offset: error.utf8_error().valid_up_to() })
    };
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in form_pairs(body) {
        fields.entry(text(name)?).or_default().push(text(value)?);
    }
    let members = fields.into_iter().map(|(name, mut values)| {
        let value = if values.len() == 1 { values.remove(0).into() } else { values.into() };
        (name, value)
    });
    Ok(Bytes::from(serde_json::Value::Object(members.collect()).to_string()))
}

/// The fields of a form, still encoded; empty pieces are no fields.
pub(crate) fn form_pairs(body: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (&pair[..at], pair.get(at + 1..).unwrap_or_default())
    })
}

/// `+` is a blank, `%41` a byte; a `%` without two hex digits stands for itself (as the URL
/// standard has it).
pub(crate) fn form_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, after @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = after;
                }
                _ => out.push(b'%'),
            },
            _ => out.push(*byte),
        }
    }
    out
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_headers::RawHeaders;

    fn request(content_type: &str, body: &'static [u8]) -> RawRequest {
        RawRequest {
            target: "/hooks/x".into(),
            headers: RawHeaders::from_iter([("content-type", content_type)]),
            body: Bytes::from_static(body),
        }
    }

    #[test]
    fn a_form_gives_its_payload_decoded() {
        for content_type in
            [FORM, "Application/X-WWW-Form-Urlencoded; charset=utf-8", "application/x-www-form-urlencoded ;x"]
        {
            let request = request(content_type, b"a=1&pay%6coad=%7B%22a%22%3a+%22%2B%C3%a9%22%7d&b");
            assert_eq!(json_text(&request, "payload", false).unwrap(), "{\"a\": \"+é\"}".as_bytes());
        }
    }

    #[test]
    fn json_that_is_declared_a_form_is_json() {
        for body in [&b"{\"id\":1}"[..], b" \n[1]", b"\xef\xbb\xbf{}"] {
            assert!(json_text(&request(FORM, body), "payload", false).is_ok());
        }
    }

    #[test]
    fn a_form_without_its_field_or_with_two_is_refused() {
        let detail = |body| json_text(&request(FORM, body), "payload", false).unwrap_err().to_string();
        assert!(detail(b"a=1").contains("has no field `payload`"));
        assert!(detail(b"").contains("has no field"));
        assert!(detail(b"id=1").contains("send JSON as application/json"));
        assert!(detail(b"payload=1&payload=2").contains("more than one"));
    }

    #[test]
    fn a_form_is_an_object_where_the_sender_sends_no_json() {
        let object = |body| json_text(&request(FORM, body), "payload", true).unwrap();
        let expected = r#"{"":"d","a":"é x","b":["1","2"],"c":""}"#;
        assert_eq!(object(b"b=1&a=%C3%A9+x&b=2&c&&=d"), expected.as_bytes());
        assert_eq!(object(b"a=1&payload=%7B%7D"), "{}");
        assert_eq!(object(b""), "{}");
        assert!(json_text(&request(FORM, b"a=%ff"), "payload", true).is_err());
    }

    #[test]
    fn percent_signs_that_mean_nothing_stay_and_bytes_are_not_replaced() {
        assert_eq!(form_decode(b"%"), b"%");
        assert_eq!(form_decode(b"%4"), b"%4");
        assert_eq!(form_decode(b"%zz%41%+"), b"%zzA% ");
        assert_eq!(form_decode(b"%ff"), b"\xff");
    }

    #[test]
    fn any_other_content_type_is_json_and_only_the_first_mark_is_skipped() {
        for content_type in ["", "text/plain;charset=UTF-8", "application/octet-stream", "\u{e9}"] {
            assert_eq!(json_text(&request(content_type, b"{}"), "payload", false).unwrap(), "{}");
        }
        assert_eq!(json_text(&request("", b"\xef\xbb\xbf{}"), "p", false).unwrap(), "{}");
        assert_eq!(json_text(&request("", b"\xef\xbb\xbf\xef\xbb\xbf{}"), "p", false).unwrap(), "\u{feff}{}");
    }

    #[test]
    fn only_identity_is_an_encoding() {
        let with = |encoding: &'static str| {
            let mut request = request("", b"{}");
            request.headers.push("content-encoding", encoding);
            json_text(&request, "payload", false)
        };
        for plain in ["identity", "Identity", "", "identity, identity"] {
            assert!(with(plain).is_ok(), "{plain}");
        }
        for encoded in ["gzip", "br", "identity, gzip", "x"] {
            assert_eq!(with(encoded), Err(EnvelopeError::ContentEncoding), "{encoded}");
        }
    }
}
