//! What an operator sees of events and dead letters, and does about them.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::{SqliteStore, classify, connect, rows};
use crate::event::EventKey;
use crate::inbox::outcome::EventState;
use crate::store::{DeadLetter, DeadLetterFilter, DeathCause, EventRecord, StoreError};

pub(super) async fn events(
    store: &SqliteStore,
    consumers: &[String],
    event_id: &str,
) -> Result<Vec<EventRecord>, StoreError> {
    let reading = classify::ours("look an event up");
    sqlx::query(include_str!("sql/events.sql"))
        .bind(rows::json(consumers))
        .bind(event_id)
        .fetch_all(&store.readers)
        .await
        .map_err(&reading)?
        .iter()
        .map(event_record)
        .collect::<Result<_, _>>()
        .map_err(reading)
}

pub(super) async fn dead_letters(
    store: &SqliteStore,
    filter: &DeadLetterFilter,
) -> Result<Vec<DeadLetter>, StoreError> {
    let reading = classify::ours("read dead letters");
    sqlx::query(include_str!("sql/dead_letters.sql"))
        .bind(filter.after.map(Uuid::hyphenated))
        .bind(filter.id.map(Uuid::hyphenated))
        .bind(&filter.source)
        .bind(&filter.event_id)
        .bind(filter.limit)
        .fetch_all(&store.readers)
        .await
        .map_err(&reading)?
        .iter()
        .map(dead_letter)
        .collect::<Result<_, _>>()
        .map_err(reading)
}

pub(super) async fn discard_dead_letters(store: &SqliteStore, ids: &[Uuid]) -> Result<u64, StoreError> {
    let ids: Vec<Hyphenated> = ids.iter().map(|id| id.hyphenated()).collect();
    let mut lease = store.writer.begin(connect::PATIENCE, None).await?;
    let discard = sqlx::query(include_str!("sql/discard_dead_letters.sql")).bind(rows::json(&ids));
    let discarded = lease.execute("discard dead letters", discard).await?;
    lease.commit().await?;
    Ok(discarded)
}

pub(super) async fn forget_event(store: &SqliteStore, key: &EventKey) -> Result<bool, StoreError> {
    let mut lease = store.writer.begin(connect::PATIENCE, None).await?;
    let forget = sqlx::query(include_str!("sql/forget_event.sql")).bind(&*key.consumer).bind(&*key.event_id);
    let forgotten = lease.execute("forget an event", forget).await?;
    lease.commit().await?;
    Ok(forgotten > 0)
}

fn key(row: &SqliteRow) -> Result<EventKey, sqlx::Error> {
    Ok(EventKey {
        consumer: row.try_get::<&str, _>("consumer")?.into(),
        event_id: row.try_get::<&str, _>("event_id")?.into(),
    })
}

fn event_record(row: &SqliteRow) -> Result<EventRecord, sqlx::Error> {
    Ok(EventRecord {
        key: key(row)?,
        source: row.try_get("source")?,
        event_type: row.try_get("event_type")?,
        state: EventState::parse(row.try_get("state")?).ok_or_else(|| rows::unreadable("a state"))?,
        status: row.try_get("status")?,
        occurred_at: rows::time_or_none(row, "occurred_at")?,
        processed_at: rows::time(row, "processed_at")?,
    })
}

fn dead_letter(row: &SqliteRow) -> Result<DeadLetter, sqlx::Error> {
    Ok(DeadLetter {
        id: row.try_get::<Hyphenated, _>("id")?.into_uuid(),
        key: key(row)?,
        source: row.try_get("source")?,
        event_type: row.try_get("event_type")?,
        cause: DeathCause::parse(row.try_get("cause")?).ok_or_else(|| rows::unreadable("a cause"))?,
        reason: row.try_get("reason")?,
        attempts: row.try_get("attempts")?,
        target: row.try_get("target")?,
        headers: rows::read_raw_headers(row.try_get("headers")?)?,
        body: row.try_get::<Vec<u8>, _>("body")?.into(),
        received_at: rows::time(row, "received_at")?,
        died_at: rows::time(row, "died_at")?,
    })
}
