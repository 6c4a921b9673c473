//! The ledger: what arrived and what became of it.
//!
//! Differs from SQLite because one event's lines are found through an index of their own.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Executor, Row};
use uuid::Uuid;

use super::connect::ASIDE;
use super::rows::{self, storable};
use super::{PostgresStore, classify};
use crate::inbox::outcome::Outcome;
use crate::store::{LedgerEntry, LedgerFilter, StoreError};

const WRITING: &str = "write the ledger";
const READING: &str = "read the ledger";

/// How far the time in a delivery's id may be from when it was received.
const ID_SLACK: chrono::Duration = chrono::Duration::minutes(5);

pub(super) async fn record(store: &PostgresStore, entries: &[LedgerEntry]) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let all = |read: fn(&LedgerEntry) -> Option<&str>| -> Vec<_> {
        entries.iter().map(|entry| read(entry).map(storable)).collect()
    };
    let record = store
        .query(include_str!("sql/record_deliveries.sql"))
        .bind(entries.iter().map(|e| e.delivery_id).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| i32::try_from(e.ordinal).unwrap_or(i32::MAX)).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| e.received_at).collect::<Vec<_>>())
        .bind(all(|e| Some(&e.source)))
        .bind(all(|e| e.event_id.as_deref()))
        .bind(all(|e| e.event_type.as_deref()))
        .bind(all(|e| e.idempotency_key.as_deref()))
        .bind(entries.iter().map(|e| e.outcome.as_str()).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| rows::status(e.status)).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| micros(e.duration)).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| i64::from(e.body_bytes)).collect::<Vec<_>>())
        .bind(all(|e| e.peer.as_deref()))
        .bind(all(|e| e.reason.as_deref()));
    let ours = classify::ours(WRITING);
    let mut transaction = store.transaction(WRITING, ASIDE).await?;
    // The ledger may lose its last lines with the server; it is not worth a wait for the disk.
    (&mut *transaction).execute("SET LOCAL synchronous_commit = off").await.map_err(ours)?;
    record.execute(&mut *transaction).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)
}

pub(super) async fn read(
    store: &PostgresStore,
    filter: &LedgerFilter,
) -> Result<Vec<LedgerEntry>, StoreError> {
    let read = match filter.event_id {
        None => include_str!("sql/deliveries.sql"),
        Some(_) => include_str!("sql/deliveries_of_event.sql"),
    };
    let mut read = sqlx::query(read)
        .persistent(false)
        .bind(filter.since.map_or(Uuid::nil(), first_id_since))
        .bind(filter.before.unwrap_or(Uuid::max()))
        .bind(filter.since)
        .bind(&filter.source)
        .bind(filter.outcome.map(Outcome::as_str))
        .bind(i64::from(filter.limit));
    if let Some(event_id) = &filter.event_id {
        read = read.bind(storable(event_id));
    }
    let ours = classify::ours(READING);
    let mut transaction = store.transaction(READING, ASIDE).await?;
    let found = read.fetch_all(&mut *transaction).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)?;
    found.iter().map(entry).collect::<Result<_, _>>().map_err(ours)
}

/// The least id (version 7: milliseconds first) of a delivery that was received since then.
fn first_id_since(since: DateTime<Utc>) -> Uuid {
    const MILLISECONDS_SHIFT: u32 = 80;
    let since = since.checked_sub_signed(ID_SLACK).unwrap_or(since);
    Uuid::from_u128(u128::from(since.timestamp_millis().max(0).unsigned_abs()) << MILLISECONDS_SHIFT)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn entry(row: &PgRow) -> Result<LedgerEntry, sqlx::Error> {
    let number = |column: &str| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
    Ok(LedgerEntry {
        delivery_id: row.try_get("delivery_id")?,
        ordinal: row.try_get::<i32, _>("ordinal")?.unsigned_abs(),
        received_at: row.try_get("received_at")?,
        source: row.try_get("source")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        idempotency_key: row.try_get("idempotency_key")?,
        outcome: Outcome::parse(row.try_get("outcome")?).ok_or_else(|| rows::unreadable("an outcome"))?,
        status: rows::read_status(row)?,
        duration: Duration::from_micros(number("duration_us")?),
        body_bytes: u32::try_from(number("body_bytes")?).unwrap_or(u32::MAX),
        peer: row.try_get("peer")?,
        reason: row.try_get("reason")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_made_since_then_is_not_before_the_first() {
        let since = DateTime::from_timestamp_millis(1_764_500_000_123).expect("a time");
        let millis = u64::try_from(since.timestamp_millis()).expect("after the epoch");
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid();
        let slack = u64::try_from(ID_SLACK.num_milliseconds()).expect("positive");
        let before = uuid::Builder::from_unix_timestamp_millis(millis - slack - 1, &[255; 10]).into_uuid();
        assert!(first_id_since(since) <= id);
        assert!(first_id_since(since) > before);
    }
}
