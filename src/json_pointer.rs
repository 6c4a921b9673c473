//! JSON pointers (RFC 6901): where in a body something lives.
//!
//! What is found is a slice of the text, exactly as sent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::json_scan::{JsonKind, JsonStr};

/// Most steps of a pointer: no body is nested deeper.
const MAX_STEPS: usize = crate::json_scan::MAX_DEPTH;

/// A pointer such as `/data/order_id`; the empty pointer is the whole value.
/// The default points at the whole value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPointer {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    key: String,
    /// The step as the index of an array, when it is one.
    index: Option<usize>,
}

/// Why a text is no pointer, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPointerError {
    #[error(
        "`{0}` is not a JSON pointer: it begins with a slash, as in \"/data/id\"; \"\" is the whole value"
    )]
    NoSlash(String),
    #[error("`{0}` is not a JSON pointer: after `~` comes 0 (for a tilde) or 1 (for a slash)")]
    BadEscape(String),
    #[error("the JSON pointer has more than {MAX_STEPS} steps, deeper than any body that is accepted")]
    TooLong,
}

impl JsonPointer {
    /// Reads a pointer.
    ///
    /// # Errors
    /// When `text` is none.
    pub fn parse(text: &str) -> Result<Self, JsonPointerError> {
        let mut steps = Vec::new();
        if !text.is_empty() {
            let rest = text.strip_prefix('/').ok_or_else(|| JsonPointerError::NoSlash(text.to_owned()))?;
            for step in rest.split('/') {
                let key = unescape(step).ok_or_else(|| JsonPointerError::BadEscape(text.to_owned()))?;
                steps.push(Step { index: array_index(&key), key });
            }
        }
        if steps.len() > MAX_STEPS {
            return Err(JsonPointerError::TooLong);
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    /// Whether this is the empty pointer: the whole value.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// The value this points at; `None` when there is none.
    #[must_use]
    pub fn find<'a>(&self, json: JsonStr<'a>) -> Option<JsonStr<'a>> {
        self.steps.iter().try_fold(json, |value, step| match value.kind() {
            JsonKind::Object => value.member(&step.key),
            JsonKind::Array => value.elements().nth(step.index?),
            _ => None,
        })
    }
}

/// `~1` is a slash and `~0` a tilde; nothing else may follow a tilde.
fn unescape(step: &str) -> Option<String> {
    let mut out = String::with_capacity(step.len());
    let mut characters = step.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

/// Digits without a leading zero. `-`, the element after the last, points at nothing.
fn array_index(step: &str) -> Option<usize> {
    let is_index = step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    if is_index { step.parse().ok() } else { None }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for JsonPointer {
    type Err = JsonPointerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'de> Deserialize<'de> for JsonPointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document and the answers of RFC 6901 section 5.
    const RFC_DOCUMENT: &str = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4,
        "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}"#;

    fn find<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
        JsonPointer::parse(pointer).unwrap().find(JsonStr::check(json).unwrap()).map(JsonStr::as_str)
    }

    #[test]
    fn the_examples_of_the_rfc_hold() {
        assert_eq!(find(RFC_DOCUMENT, ""), Some(RFC_DOCUMENT));
        for (pointer, value) in [
            ("/foo", r#"["bar", "baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            assert_eq!(find(RFC_DOCUMENT, pointer), Some(value), "{pointer}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for pointer in
            ["/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/+1", "/foo/a", "/nope", "/foo/0/x", "//x"]
        {
            assert_eq!(find(RFC_DOCUMENT, pointer), None, "{pointer}");
        }
        assert_eq!(find(r#"{"a":[1]}"#, "/a/18446744073709551616"), None);
    }

    #[test]
    fn numbers_and_strings_come_as_sent_and_keys_are_compared_unescaped() {
        let json = r#"{"\u0061mount" : 1.10 , "x":{"i\/d":123456789012345678901234567890},"s":"\u00e9" }"#;
        assert_eq!(find(json, "/amount"), Some("1.10"));
        assert_eq!(find(json, "/x/i~1d"), Some("123456789012345678901234567890"));
        assert_eq!(find(json, "/s"), Some(r#""\u00e9""#));
    }

    #[test]
    fn an_object_key_may_look_like_an_index() {
        assert_eq!(find(r#"{"0":{"01":true}}"#, "/0/01"), Some("true"));
    }

    #[test]
    fn what_is_no_pointer_is_refused_with_the_way_out() {
        assert!(JsonPointer::parse("data/id").unwrap_err().to_string().contains("begins with a slash"));
        assert!(JsonPointer::parse("/a~").unwrap_err().to_string().contains("after `~`"));
        assert!(JsonPointer::parse("/a~2").is_err());
        assert_eq!(JsonPointer::parse(&"/a".repeat(200)), Err(JsonPointerError::TooLong));
    }
}
