//! The answers that a handler's statement returns, row by row.
//!
//! Differs from PostgreSQL because there the function that runs the handlers judges them.

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{Column as _, Row, TypeInfo, ValueRef};

use super::classify;
use crate::handler::HandlerReply;
use crate::store::bisect::Failure;
use crate::store::handler_answer::{self, Mistake};

const COLUMNS: [&str; 4] = ["event_id", "status", "headers", "body"];

/// A value as text, whatever its type.
struct Answered {
    text: String,
    /// Whether it is one, and not a number.
    is_text: bool,
}

/// Reads what a statement returned over the events `given`: the event of each row, and its answer.
/// Rows that name no event answer nothing.
pub(super) fn read_all(
    rows: &[SqliteRow],
    given: &HashSet<&str>,
) -> Result<Vec<(Arc<str>, HandlerReply)>, Failure> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    for name in COLUMNS {
        if first.columns().iter().filter(|column| column.name() == name).count() > 1 {
            return Err(Mistake::column_twice(name).into());
        }
    }
    rows.iter().filter_map(|row| read(row, given).transpose()).collect()
}

/// `None`: the row names no event.
fn read(row: &SqliteRow, given: &HashSet<&str>) -> Result<Option<(Arc<str>, HandlerReply)>, Failure> {
    let Some(event_id) = column(row, "event_id")? else { return Ok(None) };
    let [status, headers, body] = [column(row, "status")?, column(row, "headers")?, column(row, "body")?];
    if !given.contains(event_id.text.as_str()) {
        return Err(Mistake::stranger(&event_id.text).into());
    }
    let reply = HandlerReply {
        status: status.map(|status| handler_answer::status(&status.text, status.is_text)).transpose()?,
        headers: headers.map_or_else(|| Ok(Vec::new()), |headers| handler_answer::headers(&headers.text))?,
        body: body.map(|body| body.text.into_bytes()),
    };
    Ok(Some((event_id.text.into(), reply)))
}

/// `None` when it is NULL or not there.
fn column(row: &SqliteRow, name: &str) -> Result<Option<Answered>, Failure> {
    let failed = classify::handlers("read an answer");
    let is_text = match row.try_get_raw(name) {
        Err(sqlx::Error::ColumnNotFound(_)) => return Ok(None),
        Ok(value) if value.is_null() => return Ok(None),
        Ok(value) => match value.type_info().name() {
            "BLOB" => return Err(Mistake::bytes(name).into()),
            kind => kind == "TEXT",
        },
        Err(error) => return Err(failed(error).into()),
    };
    let bytes: Vec<u8> = row.try_get_unchecked(name).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| Mistake::bytes(name))?;
    Ok(Some(Answered { text, is_text }))
}
