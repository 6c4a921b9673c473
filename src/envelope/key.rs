//! The `Idempotency-Key` header and the fingerprint of what it was sent for.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::error::EnvelopeError;
use crate::event::{Fingerprint, IdempotencyKey, MAX_IDEMPOTENCY_KEY_CHARS, RawRequest};
use crate::source::KeyPolicy;

const HEADER: &str = "idempotency-key";

/// The key the sender sent, if any and if the source looks at it.
///
/// 1 to 255 printable ASCII characters, either bare, as most senders write it, or as the string of
/// a structured field (RFC 8941), as the IETF draft has it: `abc` and `"abc"` are one key, and in
/// the latter `\"` and `\\` are the only escapes. What begins with a quote must be such a string
/// and nothing else: parameters after it (`"abc";p=1`) mean nothing to us and are refused rather
/// than dropped. A bare key has no comma, since `a, b` is also what a proxy makes of two headers;
/// in quotes it may. Other structured types are no keys of their own: the byte sequence `:YWJj:`
/// is the bare key of these six characters.
///
/// # Errors
/// When the header is missing but required, sent twice, or holds no valid key.
pub fn idempotency_key(
    policy: KeyPolicy,
    request: &RawRequest,
) -> Result<Option<IdempotencyKey>, EnvelopeError> {
    if policy == KeyPolicy::Ignored {
        return Ok(None);
    }
    let mut values = request.header_values(HEADER);
    let Some(value) = values.next() else {
        return match policy {
            KeyPolicy::Required => Err(EnvelopeError::NoKey),
            KeyPolicy::Optional | KeyPolicy::Ignored => Ok(None),
        };
    };
    if values.next().is_some() {
        return Err(EnvelopeError::BadKey("was sent twice"));
    }
    read_key(value).map(|key| Some(IdempotencyKey::new_unchecked(&*key))).map_err(EnvelopeError::BadKey)
}

fn read_key(value: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let value = std::str::from_utf8(value).map_err(|_| "is not printable ASCII")?.trim_matches([' ', '\t']);
    if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err("is not printable ASCII");
    }
    let key = if value.starts_with('"') {
        unquote(value)?
    } else if value.contains(',') {
        return Err("holds a comma, as two joined headers would; put it into double quotes");
    } else {
        Cow::Borrowed(value)
    };
    if key.trim_matches(' ').is_empty() {
        return Err("is empty");
    }
    if key.len() > MAX_IDEMPOTENCY_KEY_CHARS {
        return Err("is longer than 255 characters");
    }
    Ok(key)
}

/// The string of a structured field, alone.
fn unquote(value: &str) -> Result<Cow<'_, str>, &'static str> {
    const NOT_ALONE: &str = "has something after its closing quote";
    let inner = &value[1..];
    if let Some((key, after)) = inner.split_once('"')
        && !key.contains('\\')
    {
        return if after.is_empty() { Ok(Cow::Borrowed(key)) } else { Err(NOT_ALONE) };
    }
    let mut key = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                return if characters.as_str().is_empty() { Ok(Cow::Owned(key)) } else { Err(NOT_ALONE) };
            }
            '\\' => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err("has a backslash before something else than a quote or a backslash"),
            },
            other => key.push(other),
        }
    }
    Err("has no closing quote")
}

/// What a request is recognized by when its key comes again: SHA-256 of method, target and body.
/// Each part is preceded by its length, so that no two requests have the same text.
#[must_use]
pub fn fingerprint(method: &str, target: &str, body: &[u8]) -> Fingerprint {
    let mut hash = Sha256::new();
    for part in [method.as_bytes(), target.as_bytes(), body] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Fingerprint(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::problem::Problem;

    fn request(keys: &[&[u8]]) -> RawRequest {
        RawRequest {
            target: "/hooks/x".into(),
            headers: keys.iter().map(|key| (HEADER, key)).collect(),
            body: Bytes::new(),
        }
    }

    fn key(value: &str) -> Result<String, Problem> {
        idempotency_key(KeyPolicy::Optional, &request(&[value.as_bytes()]))
            .map(|key| key.unwrap().as_str().to_owned())
            .map_err(|error| error.problem())
    }

    #[test]
    fn bare_and_quoted_are_one_key() {
        let longest = "x".repeat(255);
        for (value, expected) in [
            ("abc", "abc"),
            ("\"abc\"", "abc"),
            (" \tabc\t ", "abc"),
            ("\"a\\\"b\"", "a\"b"),
            ("a\"b", "a\"b"),
            ("\"a\\\\b\"", "a\\b"),
            ("a\\b", "a\\b"),
            ("\"a, b\"", "a, b"),
            ("a b", "a b"),
            (":YWJj:", ":YWJj:"),
            ("abc;p=1", "abc;p=1"),
            ("x", "x"),
            (&longest, &longest),
            (&format!("\"{longest}\""), &longest),
        ] {
            assert_eq!(key(value).as_deref(), Ok(expected), "{value}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let too_long = "x".repeat(256);
        for value in [
            "",
            " ",
            "\t",
            "\"\"",
            "\"  \"",
            "\"",
            "\"unterminated",
            "\"abc\";p=1",
            "\"abc\" x",
            "\"a\", \"b\"",
            "\"a\"b\"",
            "\"a\\nb\"",
            "\"a\\",
            "a, b",
            "a,b",
            "\u{e9}",
            "a\u{1}b",
            "a\tb",
            "\u{7f}",
            &too_long,
        ] {
            assert_eq!(key(value), Err(Problem::InvalidIdempotencyKey), "{value:?}");
        }
        let outcome = |keys: &[&[u8]]| {
            idempotency_key(KeyPolicy::Optional, &request(keys)).map_err(|error| error.problem())
        };
        assert_eq!(outcome(&[b"a", b"b"]), Err(Problem::InvalidIdempotencyKey));
        assert_eq!(outcome(&[b"a", b"a"]), Err(Problem::InvalidIdempotencyKey));
        assert_eq!(outcome(&[b"\xc3"]), Err(Problem::InvalidIdempotencyKey));
    }

    #[test]
    fn the_policy_decides_whether_a_key_is_looked_at() {
        let outcome = |policy, keys: &[&[u8]]| idempotency_key(policy, &request(keys));
        assert_eq!(outcome(KeyPolicy::Required, &[]), Err(EnvelopeError::NoKey));
        assert_eq!(outcome(KeyPolicy::Optional, &[]), Ok(None));
        assert_eq!(outcome(KeyPolicy::Ignored, &[b"a", b"\xff"]), Ok(None));
        assert!(outcome(KeyPolicy::Required, &[b"a"]).unwrap().is_some());
    }

    #[test]
    fn no_two_requests_share_a_fingerprint() {
        let prints = [
            fingerprint("POST", "/a", b"b"),
            fingerprint("POST", "/", b"ab"),
            fingerprint("POST", "/ab", b""),
            fingerprint("POST/", "a", b"b"),
            fingerprint("POST", "/a?x=1", b"b"),
            fingerprint("PUT", "/a", b"b"),
        ];
        for (index, print) in prints.iter().enumerate() {
            assert!(!prints[..index].contains(print), "{index}");
        }
        assert_eq!(fingerprint("POST", "/a", b"b"), prints[0]);
    }

    proptest! {
        #[test]
        fn any_printable_key_can_be_written_in_quotes(text in "[ -~]{1,255}") {
            prop_assume!(!text.trim().is_empty());
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(key(&quoted), Ok(text));
        }

        #[test]
        fn any_bytes_are_a_key_or_a_clean_refusal(value: Vec<u8>) {
            let key = idempotency_key(KeyPolicy::Required, &request(&[&value]));
            prop_assert!(matches!(key, Ok(Some(_)) | Err(EnvelopeError::BadKey(_))));
        }
    }
}
