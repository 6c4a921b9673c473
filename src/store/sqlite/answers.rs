//! The answers that a handler's statement returns, row by row.
//!
//! Whatever passes can be sent as an HTTP answer. Differs from PostgreSQL because there the function
//! that runs the handlers judges them.

use std::sync::Arc;

use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, ValueRef};

use super::classify;
use crate::handler::HandlerReply;
use crate::store::bisect::Failure;

/// What an HTTP header's name may consist of, beside letters and digits (RFC 9110).
const TOKEN_SYMBOLS: &str = "!#$%&'*+-.^_`|~";

/// The statuses that end a request.
const FINAL_STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// Reads one row: the event it answers, and the answer. `None`: the row names no event.
pub(super) fn read(row: &SqliteRow) -> Result<Option<(Arc<str>, HandlerReply)>, Failure> {
    let Some(event_id) = column(row, "event_id")? else { return Ok(None) };
    let reply = HandlerReply {
        status: column(row, "status")?.map(|text| status(&text)).transpose()?,
        headers: column(row, "headers")?.map_or_else(|| Ok(Vec::new()), |text| headers(&text))?,
        body: column(row, "body")?,
    };
    Ok(Some((text(event_id)?.into(), reply)))
}

/// A column's value as bytes, whatever its type; `None` when it is NULL or not there.
fn column(row: &SqliteRow, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    match row.try_get_raw(name) {
        Err(sqlx::Error::ColumnNotFound(_)) => Ok(None),
        Ok(value) if value.is_null() => Ok(None),
        _ => {
            row.try_get_unchecked(name).map(Some).map_err(|e| classify::handlers("read an answer")(e).into())
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| mistake("an event_id that is not text"))
}

fn status(text: &[u8]) -> Result<u16, Failure> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|status| FINAL_STATUSES.contains(status))
        .ok_or_else(|| {
            mistake(&format!(
                "status {}, which is not a number from 200 to 599",
                String::from_utf8_lossy(text)
            ))
        })
}

fn headers(text: &[u8]) -> Result<Vec<(String, String)>, Failure> {
    let Ok(Value::Object(object)) = serde_json::from_slice(text) else {
        return Err(mistake("headers that are not a JSON object"));
    };
    object
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                Value::String(text) => text,
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => return Err(not_http()),
            };
            let is_name = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || TOKEN_SYMBOLS.contains(c));
            let is_value = value.chars().all(|c| c == '\t' || c == ' ' || c.is_ascii_graphic());
            if is_name && is_value { Ok((name.to_ascii_lowercase(), value)) } else { Err(not_http()) }
        })
        .collect()
}

fn not_http() -> Failure {
    mistake("a header that HTTP does not allow")
}

fn mistake(what: &str) -> Failure {
    Failure::Event { permanent: false, reason: format!("the handler answered with {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_http_allows_is_taken_for_a_header() {
        assert_eq!(
            headers(br#"{"Location": "/orders/1", "x-count": 2}"#).expect("allowed"),
            [("location".to_owned(), "/orders/1".to_owned()), ("x-count".to_owned(), "2".to_owned())]
        );
        for refused in [
            r#"{"a b": "x"}"#,
            r#"{"": "x"}"#,
            r#"{"a": "x\r\ny: z"}"#,
            r#"{"a": "é"}"#,
            r#"{"a": null}"#,
            r#"{"a": ["x"]}"#,
            r#"["a"]"#,
            "a",
        ] {
            assert!(headers(refused.as_bytes()).is_err(), "{refused}");
        }
    }

    #[test]
    fn only_final_statuses_are_taken() {
        assert_eq!(status(b"201").expect("final"), 201);
        for refused in ["100", "199", "600", "-1", "2e2", "", "201.0"] {
            assert!(status(refused.as_bytes()).is_err(), "{refused}");
        }
    }
}
