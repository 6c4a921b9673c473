//! What stands in the outbox's rows, as values.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::store::outbox::{
    AttemptRecord, Backlog, DestinationState, Message, MessageRecord, MessageState, read_headers,
};
use crate::store::sqlite::rows::{time, time_or_none, unreadable};

/// `None`: it is left to its lease, so that it holds no other message back. SQLite keeps any bytes as text.
pub(super) fn readable(row: &SqliteRow, now: DateTime<Utc>) -> Option<(i64, Message)> {
    let read = message(row, now);
    if let Err(error) = &read {
        let sequence = row.try_get::<i64, _>("sequence").unwrap_or_default();
        tracing::error!(%error, sequence, "a message of the outbox cannot be read; correct its row, or delete it");
    }
    read.ok()
}

fn message(row: &SqliteRow, now: DateTime<Utc>) -> Result<(i64, Message), sqlx::Error> {
    let message = Message {
        id: uuid(row, "id")?,
        aggregate_id: row.try_get("aggregate_id")?,
        event_type: row.try_get("event_type")?,
        content_type: row.try_get("content_type")?,
        headers: headers(row)?,
        payload: row.try_get::<Vec<u8>, _>("payload")?.into(),
        traceparent: row.try_get("traceparent")?,
        hops: hops(row)?,
        attempts: row.try_get("attempts")?,
        age: (now - time(row, "created_at")?).to_std().unwrap_or_default(),
    };
    Ok((row.try_get("sequence")?, message))
}

pub(super) fn destination_state(
    row: &SqliteRow,
    now: DateTime<Utc>,
) -> Result<DestinationState, sqlx::Error> {
    let open_for = time_or_none(row, "open_until")?.and_then(|until| (until - now).to_std().ok());
    Ok(DestinationState {
        name: row.try_get("name")?,
        paused_at: time_or_none(row, "paused_at")?,
        pause_reason: row.try_get("pause_reason")?,
        open_for: open_for.unwrap_or_default(),
        open_reason: row.try_get("open_reason")?,
    })
}

pub(super) fn backlog(row: &SqliteRow, now: DateTime<Utc>) -> Result<Backlog, sqlx::Error> {
    let oldest = time_or_none(row, "oldest")?.and_then(|created| (now - created).to_std().ok());
    Ok(Backlog {
        destination: row.try_get("destination")?,
        unsent: row.try_get::<i64, _>("unsent")?.unsigned_abs(),
        dead: row.try_get::<i64, _>("dead")?.unsigned_abs(),
        oldest: oldest.unwrap_or_default(),
        age_p95: Duration::ZERO,
    })
}

pub(super) fn record(row: &SqliteRow) -> Result<MessageRecord, sqlx::Error> {
    Ok(MessageRecord {
        id: uuid(row, "id")?,
        destination: row.try_get("destination")?,
        aggregate_id: row.try_get("aggregate_id")?,
        sequence: row.try_get("sequence")?,
        event_type: row.try_get("event_type")?,
        content_type: row.try_get("content_type")?,
        headers: headers(row)?,
        traceparent: row.try_get("traceparent")?,
        hops: hops(row)?,
        created_at: time(row, "created_at")?,
        state: MessageState::parse(row.try_get("state")?).ok_or_else(|| unreadable("a state"))?,
        next_attempt_at: time(row, "next_attempt_at")?,
        attempts: row.try_get("attempts")?,
        leased_until: time_or_none(row, "leased_until")?,
        sent_at: time_or_none(row, "sent_at")?,
        dead_at: time_or_none(row, "dead_at")?,
        last_status: row.try_get("last_status")?,
        last_error: row.try_get("last_error")?,
        answer_bytes: row.try_get::<Option<i64>, _>("answer_bytes")?.map(i64::unsigned_abs),
        payload_bytes: row.try_get::<i64, _>("payload_bytes")?.unsigned_abs(),
    })
}

pub(super) fn attempt(row: &SqliteRow) -> Result<AttemptRecord, sqlx::Error> {
    Ok(AttemptRecord {
        attempt: row.try_get("attempt")?,
        ended_at: time(row, "ended_at")?,
        latency: Duration::from_micros(row.try_get::<i64, _>("latency_us")?.unsigned_abs()),
        status: row.try_get("status")?,
        error: row.try_get("error")?,
        answer: row.try_get::<Vec<u8>, _>("answer")?.into(),
        answer_bytes: row.try_get::<i64, _>("answer_bytes")?.unsigned_abs(),
    })
}

fn headers(row: &SqliteRow) -> Result<Vec<(String, String)>, sqlx::Error> {
    Ok(read_headers(row.try_get("headers")?))
}

/// Who writes more means a message that has come a long way.
fn hops(row: &SqliteRow) -> Result<u16, sqlx::Error> {
    row.try_get::<i64, _>("hops").map(|hops| u16::try_from(hops).unwrap_or(u16::MAX))
}

pub(super) fn uuid(row: &SqliteRow, column: &str) -> Result<Uuid, sqlx::Error> {
    row.try_get::<Hyphenated, _>(column).map(Hyphenated::into_uuid)
}
