//! What a row that a handler's statement returns may say, alike on both databases.
//!
//! Whatever passes can be sent as an HTTP answer. SQLite's rows are judged here; PostgreSQL's are judged by
//! `hooklatch.mistake_in_answers`, by the same rules and in the same words, since a mistake must undo what is
//! in its subtransaction; what has passed there passes here.

use crate::json_scan::{DUPLICATE_KEY, JsonKind, JsonStr};
use crate::reply::FINAL_STATUSES;

/// What an HTTP header's name may consist of, beside letters and digits (RFC 9110).
const TOKEN_SYMBOLS: &str = "!#$%&'*+-.^_`|~";

/// Why an answer is none: a sentence for the operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake(String);

impl Mistake {
    /// A value that has the database's type for bytes, or is no Unicode text.
    pub(super) fn bytes(column: &str) -> Self {
        Self::with(&format!("bytes as {column}, which is text"))
    }

    pub(super) fn column_twice(column: &str) -> Self {
        Self::with(&format!("two columns called {column}"))
    }

    /// It would otherwise pass unseen.
    pub(super) fn stranger(event_id: &str) -> Self {
        Self(format!("the handler answered for event {}, which it was not given", quoted(event_id)))
    }

    pub(super) fn into_reason(self) -> String {
        self.0
    }

    fn with(what: &str) -> Self {
        Self(format!("the handler answered with {what}"))
    }
}

/// A status that was returned as `text`; `is_text`: as a string and not as a number.
pub(super) fn status(text: &str, is_text: bool) -> Result<u16, Mistake> {
    let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let status = digits.then(|| text.parse().ok()).flatten();
    status.filter(|status| FINAL_STATUSES.contains(status)).ok_or_else(|| {
        let shown = if is_text { quoted(text) } else { text.to_owned() };
        Mistake::with(&format!("status {shown}, which is not a number from 200 to 599"))
    })
}

/// The headers in a JSON object, with lower-case names and values as they were written; none in a JSON null.
pub(super) fn headers(json: &str) -> Result<Vec<(String, String)>, Mistake> {
    let object = JsonStr::check(json).map_err(|fault| {
        Mistake::with(if fault.problem == DUPLICATE_KEY {
            "headers in which a name stands twice"
        } else {
            NO_OBJECT
        })
    })?;
    match object.kind() {
        JsonKind::Object => {}
        JsonKind::Null => return Ok(Vec::new()),
        _ => return Err(Mistake::with(NO_OBJECT)),
    }
    let mut headers = Vec::new();
    let mut refused: Option<String> = None;
    for (name, value) in object.members() {
        let name = name.text().ok_or_else(|| Mistake::with(NO_OBJECT))?;
        match header_value(value)? {
            Some(value) if is_name(&name) => headers.push((name.to_ascii_lowercase(), value)),
            _ => {
                let name = quoted(&name);
                // Of several the same one as there.
                refused = Some(refused.map_or(name.clone(), |other| other.min(name)));
            }
        }
    }
    match refused {
        Some(name) => Err(Mistake::with(&format!("a header {name} that HTTP does not allow"))),
        None => Ok(headers),
    }
}

const NO_OBJECT: &str = "headers that are not a JSON object";

/// `None` when it cannot stand in a header.
fn header_value(value: JsonStr<'_>) -> Result<Option<String>, Mistake> {
    let text = match value.kind() {
        JsonKind::String => value.text().ok_or_else(|| Mistake::with(NO_OBJECT))?,
        JsonKind::Number | JsonKind::Bool => value.as_str().into(),
        JsonKind::Null | JsonKind::Array | JsonKind::Object => return Ok(None),
    };
    let fits = text.chars().all(|c| c == '\t' || c == ' ' || c.is_ascii_graphic());
    Ok(fits.then(|| text.into_owned()))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || TOKEN_SYMBOLS.contains(c))
}

/// As a JSON string: control characters do not reach a log.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_http_allows_is_taken_for_a_header() {
        assert_eq!(
            headers(r#"{"Location": "/orders/1", "x-count": 2, "x-large": 1e400, "x-new": true}"#)
                .expect("allowed"),
            [("location", "/orders/1"), ("x-count", "2"), ("x-large", "1e400"), ("x-new", "true")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(headers(" null "), Ok(Vec::new()));
        for refused in [
            r#"{"a b": "x"}"#,
            r#"{"": "x"}"#,
            r#"{"a": "x\r\ny: z"}"#,
            r#"{"a": "é"}"#,
            r#"{"a": null}"#,
            r#"{"a": ["x"]}"#,
            r#"{"a": "x", "a": "y"}"#,
            r#"{"a": "\ud800"}"#,
            r#"["a"]"#,
            "a",
            "",
        ] {
            assert!(headers(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn only_final_statuses_are_taken() {
        assert_eq!(status("201", false).expect("final"), 201);
        for refused in ["100", "199", "600", "-1", "2e2", "", "201.0", "+20", "0201", "2 0"] {
            assert!(status(refused, true).is_err(), "{refused}");
        }
    }
}
