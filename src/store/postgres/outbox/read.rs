//! What stands in the outbox's rows, as values.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::store::outbox::{
    AttemptRecord, Backlog, Claimed, DestinationState, Message, MessageRecord, MessageState, read_headers,
};
use crate::store::postgres::rows::unreadable;

pub(super) fn claimed(found: &[PgRow]) -> Result<Claimed, sqlx::Error> {
    let mut claimed = Claimed::default();
    for row in found {
        claimed.parked = usize::try_from(row.try_get::<i64, _>("parked")?).unwrap_or(usize::MAX);
        claimed.expired = row.try_get::<i64, _>("expired")?.unsigned_abs();
        let Some(id) = row.try_get::<Option<Uuid>, _>("id")? else { continue };
        claimed.messages.push(Message {
            id,
            aggregate_id: row.try_get("aggregate_id")?,
            event_type: row.try_get("event_type")?,
            content_type: row.try_get("content_type")?,
            headers: headers(row)?,
            payload: row.try_get::<Vec<u8>, _>("payload")?.into(),
            traceparent: row.try_get("traceparent")?,
            hops: row.try_get::<i16, _>("hops")?.unsigned_abs(),
            attempts: row.try_get::<i32, _>("attempts")?.unsigned_abs(),
            age: Duration::try_from_secs_f64(row.try_get("age")?).unwrap_or_default(),
        });
    }
    Ok(claimed)
}

pub(super) fn destination_state(row: &PgRow) -> Result<DestinationState, sqlx::Error> {
    Ok(DestinationState {
        name: row.try_get("name")?,
        paused_at: row.try_get("paused_at")?,
        pause_reason: row.try_get("pause_reason")?,
        open_for: Duration::try_from_secs_f64(row.try_get::<Option<f64>, _>("open_for")?.unwrap_or_default())
            .unwrap_or_default(),
        open_reason: row.try_get("open_reason")?,
    })
}

pub(super) fn backlog(row: &PgRow) -> Result<Backlog, sqlx::Error> {
    let age = |column: &str| -> Result<Duration, sqlx::Error> {
        let seconds = row.try_get::<Option<f64>, _>(column)?.unwrap_or_default();
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    };
    Ok(Backlog {
        destination: row.try_get("destination")?,
        unsent: row.try_get::<i64, _>("unsent")?.unsigned_abs(),
        dead: row.try_get::<i64, _>("dead")?.unsigned_abs(),
        oldest: age("oldest")?,
        age_p95: age("age_p95")?,
    })
}

pub(super) fn record(row: &PgRow) -> Result<MessageRecord, sqlx::Error> {
    let status: Option<i16> = row.try_get("last_status")?;
    Ok(MessageRecord {
        id: row.try_get("id")?,
        destination: row.try_get("destination")?,
        aggregate_id: row.try_get("aggregate_id")?,
        sequence: row.try_get("sequence")?,
        event_type: row.try_get("event_type")?,
        content_type: row.try_get("content_type")?,
        headers: headers(row)?,
        traceparent: row.try_get("traceparent")?,
        hops: row.try_get::<i16, _>("hops")?.unsigned_abs(),
        created_at: row.try_get("created_at")?,
        state: MessageState::parse(row.try_get("state")?).ok_or_else(|| unreadable("a state"))?,
        next_attempt_at: row.try_get("next_attempt_at")?,
        attempts: row.try_get::<i32, _>("attempts")?.unsigned_abs(),
        leased_until: row.try_get("leased_until")?,
        sent_at: row.try_get("sent_at")?,
        dead_at: row.try_get("dead_at")?,
        last_status: status.map(i16::unsigned_abs),
        last_error: row.try_get("last_error")?,
        answer_bytes: row.try_get::<Option<i64>, _>("answer_bytes")?.map(i64::unsigned_abs),
        payload_bytes: row.try_get::<i64, _>("payload_bytes")?.unsigned_abs(),
    })
}

pub(super) fn attempt(row: &PgRow) -> Result<AttemptRecord, sqlx::Error> {
    let status: Option<i16> = row.try_get("status")?;
    Ok(AttemptRecord {
        attempt: row.try_get::<i32, _>("attempt")?.unsigned_abs(),
        ended_at: row.try_get("ended_at")?,
        latency: Duration::from_micros(row.try_get::<i64, _>("latency_us")?.unsigned_abs()),
        status: status.map(i16::unsigned_abs),
        error: row.try_get("error")?,
        answer: row.try_get::<Vec<u8>, _>("answer")?.into(),
        answer_bytes: row.try_get::<i64, _>("answer_bytes")?.unsigned_abs(),
    })
}

fn headers(row: &PgRow) -> Result<Vec<(String, String)>, sqlx::Error> {
    let sqlx::types::Json(headers): sqlx::types::Json<Box<serde_json::value::RawValue>> =
        row.try_get("headers")?;
    Ok(read_headers(headers.get()))
}
