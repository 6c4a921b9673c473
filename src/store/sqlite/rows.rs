//! How values stand in SQLite's rows and in the JSON that carries many of them to a statement.
//!
//! Where every delivery comes by, many rows are parameters (`many_rows.rs`); elsewhere they are one
//! JSON array that `json_each` takes apart. Times are microseconds since
//! the epoch, bytes are hexadecimal, headers a JSON array of pairs.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::event::Fingerprint;
use crate::raw_headers::RawHeaders;
use crate::reply::Reply;

/// The bits of a uuid of version 7 that follow its milliseconds.
const UUID_V7_RANDOM_BITS: u32 = 80;

/// Many values as the JSON array that a statement takes apart.
pub(super) fn json<T: Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).expect("strings, numbers and lists of them have a JSON form")
}

pub(super) fn micros(time: DateTime<Utc>) -> i64 {
    time.timestamp_micros()
}

/// The time `window` ago: a row counts while its own time is later.
pub(super) fn horizon(now: DateTime<Utc>, window: Duration) -> i64 {
    let window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
    micros(now).saturating_sub(window)
}

/// Below the id of every delivery that came at this time or later: ids of version 7 begin with the
/// milliseconds.
pub(super) fn first_delivery_id(micros: i64) -> String {
    let millis = u128::from(u64::try_from(micros / 1000).unwrap_or_default());
    Uuid::from_u128(millis << UUID_V7_RANDOM_BITS).to_string()
}

pub(super) fn time(row: &SqliteRow, column: &str) -> Result<DateTime<Utc>, sqlx::Error> {
    read_time(row.try_get(column)?)
}

pub(super) fn time_or_none(row: &SqliteRow, column: &str) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    row.try_get::<Option<i64>, _>(column)?.map(read_time).transpose()
}

fn read_time(micros: i64) -> Result<DateTime<Utc>, sqlx::Error> {
    DateTime::from_timestamp_micros(micros).ok_or_else(|| unreadable("a time"))
}

pub(super) fn fingerprint(row: &SqliteRow) -> Result<Option<Fingerprint>, sqlx::Error> {
    row.try_get::<Option<&[u8]>, _>("fingerprint")?
        .map(|bytes| bytes.try_into().map(Fingerprint).map_err(|_| unreadable("a fingerprint")))
        .transpose()
}

/// The columns `status`, `reply_headers` and `reply_body`; `None` when no answer is kept.
pub(super) fn reply(row: &SqliteRow) -> Result<Option<Reply>, sqlx::Error> {
    let Some(body) = row.try_get::<Option<Vec<u8>>, _>("reply_body")? else { return Ok(None) };
    let headers: &str = row.try_get("reply_headers")?;
    Ok(Some(Reply {
        status: row.try_get("status")?,
        headers: serde_json::from_str(headers).map_err(|_| unreadable("an answer's headers"))?,
        body: Bytes::from(body),
    }))
}

/// The headers of a refused delivery: a JSON array of pairs, `None` when none are kept.
pub(super) fn shown_headers(headers: &[(String, String)]) -> Option<String> {
    (!headers.is_empty()).then(|| serde_json::to_string(headers).expect("pairs of strings have a JSON form"))
}

/// Reads what [`shown_headers`] wrote.
pub(super) fn read_shown_headers(text: Option<&str>) -> Result<Vec<(String, String)>, sqlx::Error> {
    let read = |text| serde_json::from_str(text).map_err(|_| unreadable("a refused delivery's headers"));
    text.map_or(Ok(Vec::new()), read)
}

/// Header names and values as text. A value may be any bytes: each stands as the character of its
/// number (ISO 8859-1), so that none is lost and the usual ones can be read.
pub(super) fn raw_headers(headers: &RawHeaders) -> String {
    let headers: Vec<(&str, String)> =
        headers.iter().map(|(name, value)| (name, value.iter().map(|&b| char::from(b)).collect())).collect();
    json(&headers)
}

/// Reads what [`raw_headers`] wrote.
pub(super) fn read_raw_headers(text: &str) -> Result<RawHeaders, sqlx::Error> {
    let headers: Vec<(String, String)> =
        serde_json::from_str(text).map_err(|_| unreadable("a request's headers"))?;
    headers
        .into_iter()
        .map(|(name, value)| {
            let value: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
            Ok((name, value.map_err(|_| unreadable("a request's headers"))?))
        })
        .collect()
}

/// What stands in a row is not what this program writes.
pub(super) fn unreadable(what: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{what} in the database cannot be read").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_of_any_bytes_come_back() {
        let every: Vec<u8> = (0..=255).collect();
        let headers: RawHeaders = [("x-any", &every[..]), ("a", b"b")].into_iter().collect();
        assert_eq!(read_raw_headers(&raw_headers(&headers)).expect("readable"), headers);
    }

    #[test]
    fn a_window_longer_than_time_reaches_back_to_its_beginning() {
        assert_eq!(horizon(DateTime::UNIX_EPOCH, Duration::MAX), -i64::MAX);
    }
}
