//! How values stand in PostgreSQL's rows and in the arrays that carry many of them to a statement.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::event::{EventKey, Fingerprint};
use crate::raw_headers::RawHeaders;
use crate::reply::Reply;
use crate::store::KeyRef;

/// A length of time as `make_interval` takes it, in seconds.
pub(super) fn seconds(window: Duration) -> f64 {
    /// Longer than anything is kept; PostgreSQL's times end in the year 294276.
    const LONGEST: Duration = Duration::from_secs(1_000 * 365 * 86_400);
    window.min(LONGEST).as_secs_f64()
}

/// Consumers and event ids, side by side.
pub(super) fn event_keys<'k>(keys: &[&'k EventKey]) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.iter().map(|key| (&*key.consumer, &*key.event_id)).unzip()
}

/// Sources and idempotency keys, side by side.
pub(super) fn idempotency_keys<'k>(keys: &[KeyRef<'k>]) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.iter().map(|key| (key.source, key.key.as_str())).unzip()
}

/// Puts rows with an `ordinal` in the places they were asked for.
pub(super) fn in_order<T>(
    places: usize,
    found: &[PgRow],
    read: impl Fn(&PgRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<Option<T>>, sqlx::Error> {
    let mut in_order: Vec<Option<T>> = std::iter::repeat_with(|| None).take(places).collect();
    for row in found {
        let place = usize::try_from(row.try_get::<i64, _>("ordinal")?).ok();
        let place = place.and_then(|place| in_order.get_mut(place));
        *place.ok_or_else(|| unreadable("an ordinal"))? = Some(read(row)?);
    }
    Ok(in_order)
}

/// An HTTP status as a `smallint`; it has three digits.
pub(super) fn status(status: u16) -> i16 {
    i16::try_from(status).unwrap_or(i16::MAX)
}

/// Reads what [`status`] wrote.
pub(super) fn read_status(row: &PgRow) -> Result<u16, sqlx::Error> {
    u16::try_from(row.try_get::<i16, _>("status")?).map_err(|_| unreadable("a status"))
}

pub(super) fn fingerprint(row: &PgRow) -> Result<Option<Fingerprint>, sqlx::Error> {
    row.try_get::<Option<&[u8]>, _>("fingerprint")?
        .map(|bytes| bytes.try_into().map(Fingerprint).map_err(|_| unreadable("a fingerprint")))
        .transpose()
}

/// The headers of an answer as `reply_headers` keeps them: a list of pairs, in order.
pub(super) fn reply_headers(reply: &Reply) -> String {
    serde_json::to_string(&reply.headers).expect("pairs of strings have a JSON form")
}

/// The columns `status`, `reply_headers` and `reply_body`; `None` when no answer is kept.
pub(super) fn reply(row: &PgRow) -> Result<Option<Reply>, sqlx::Error> {
    let Some(body) = row.try_get::<Option<Vec<u8>>, _>("reply_body")? else { return Ok(None) };
    let Json(headers) = row.try_get("reply_headers")?;
    Ok(Some(Reply { status: read_status(row)?, headers, body: Bytes::from(body) }))
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
    let headers: Vec<(&str, String)> = headers
        .iter()
        .map(|(name, value)| (name, value.iter().map(|&byte| char::from(byte)).collect()))
        .collect();
    serde_json::to_string(&headers).expect("pairs of strings have a JSON form")
}

/// Reads what [`raw_headers`] wrote.
pub(super) fn read_raw_headers(row: &PgRow) -> Result<RawHeaders, sqlx::Error> {
    let Json::<Vec<(String, String)>>(headers) = row.try_get("headers")?;
    headers
        .into_iter()
        .map(|(name, value)| {
            let value: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
            Ok((name, value.map_err(|_| unreadable("a request's headers"))?))
        })
        .collect()
}

/// Text that was not checked at the edge, without the one character PostgreSQL cannot keep.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// What stands in a row is not what this program writes.
pub(super) fn unreadable(what: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{what} in the database cannot be read").into())
}
