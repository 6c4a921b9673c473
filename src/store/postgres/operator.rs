//! What an operator sees and does: events, dead letters, forgetting an event.

use sqlx::Row;
use sqlx::postgres::{PgQueryResult, PgRow};
use uuid::Uuid;

use super::connect::{ASIDE, Query};
use super::rows::{self, storable, unreadable};
use super::{PostgresStore, classify};
use crate::event::EventKey;
use crate::inbox::outcome::EventState;
use crate::store::{DeadLetter, DeadLetterFilter, DeathCause, EventRecord, StoreError};

pub(super) async fn events(
    store: &PostgresStore,
    consumers: &[String],
    event_id: &str,
) -> Result<Vec<EventRecord>, StoreError> {
    let read = store.query(include_str!("sql/events.sql")).bind(consumers).bind(storable(event_id));
    fetch(store, "read an event", read, event).await
}

pub(super) async fn dead_letters(
    store: &PostgresStore,
    filter: &DeadLetterFilter,
) -> Result<Vec<DeadLetter>, StoreError> {
    let read = store
        .query(include_str!("sql/dead_letters.sql"))
        .bind(&filter.source)
        .bind(filter.event_id.as_deref().map(storable))
        .bind(filter.id)
        .bind(filter.after)
        .bind(i64::from(filter.limit));
    fetch(store, "read dead letters", read, dead_letter).await
}

pub(super) async fn discard_dead_letters(store: &PostgresStore, ids: &[Uuid]) -> Result<u64, StoreError> {
    let discard = store.query(include_str!("sql/discard_dead_letters.sql")).bind(ids);
    Ok(execute(store, "discard dead letters", discard).await?.rows_affected())
}

pub(super) async fn forget_event(store: &PostgresStore, key: &EventKey) -> Result<bool, StoreError> {
    let forget =
        store.query(include_str!("sql/forget_event.sql")).bind(&*key.consumer).bind(storable(&key.event_id));
    Ok(execute(store, "forget an event", forget).await?.rows_affected() > 0)
}

/// Reads rows in a transaction of its own.
async fn fetch<T>(
    store: &PostgresStore,
    doing: &'static str,
    query: Query<'_>,
    read: impl Fn(&PgRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, StoreError> {
    let ours = classify::ours(doing);
    let mut transaction = store.transaction(doing, ASIDE).await?;
    let found = query.fetch_all(&mut *transaction).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)?;
    found.iter().map(read).collect::<Result<_, _>>().map_err(ours)
}

/// Runs a statement in a transaction of its own.
async fn execute(
    store: &PostgresStore,
    doing: &'static str,
    query: Query<'_>,
) -> Result<PgQueryResult, StoreError> {
    let ours = classify::ours(doing);
    let mut transaction = store.transaction(doing, ASIDE).await?;
    let result = query.execute(&mut *transaction).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)?;
    Ok(result)
}

fn event(row: &PgRow) -> Result<EventRecord, sqlx::Error> {
    Ok(EventRecord {
        key: key(row)?,
        source: row.try_get("source")?,
        event_type: row.try_get("event_type")?,
        state: EventState::parse(row.try_get("state")?).ok_or_else(|| unreadable("a state"))?,
        status: rows::read_status(row)?,
        occurred_at: row.try_get("occurred_at")?,
        processed_at: row.try_get("processed_at")?,
    })
}

fn dead_letter(row: &PgRow) -> Result<DeadLetter, sqlx::Error> {
    Ok(DeadLetter {
        id: row.try_get("id")?,
        key: key(row)?,
        source: row.try_get("source")?,
        event_type: row.try_get("event_type")?,
        cause: DeathCause::parse(row.try_get("cause")?).ok_or_else(|| unreadable("a cause"))?,
        reason: row.try_get("reason")?,
        attempts: row.try_get::<i32, _>("attempts")?.unsigned_abs(),
        target: row.try_get("target")?,
        headers: rows::read_raw_headers(row)?,
        body: row.try_get::<Vec<u8>, _>("body")?.into(),
        received_at: row.try_get("received_at")?,
        died_at: row.try_get("died_at")?,
    })
}

fn key(row: &PgRow) -> Result<EventKey, sqlx::Error> {
    let text = |column: &str| row.try_get::<&str, _>(column);
    Ok(EventKey { consumer: text("consumer")?.into(), event_id: text("event_id")?.into() })
}
