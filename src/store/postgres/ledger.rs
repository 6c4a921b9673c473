//! The ledger: what arrived and what became of it.
//!
//! Differs from SQLite because one event's lines are found through an index of their own.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{Executor, PgTransaction, Row};
use uuid::Uuid;

use super::connect::{ASIDE, Query};
use super::copy_rows::CopyRows;
use super::rows::{self, storable};
use super::{PostgresStore, classify};
use crate::inbox::outcome::Outcome;
use crate::store::{LedgerEntry, LedgerFilter, StoreError};

const WRITING: &str = "write the ledger";
const READING: &str = "read the ledger";

/// The columns of `sql/copy_deliveries.sql`.
const COLUMNS: i16 = 14;

/// Room for a line: what most take.
const USUAL_LINE_BYTES: usize = 256;

/// How far the time in a delivery's id may be from when it was received.
const ID_SLACK: chrono::Duration = chrono::Duration::minutes(5);

/// Writes lines. They are copied in; only when one of them stands there already, as after a commit
/// whose acknowledgement was lost, they are inserted where they are missing.
pub(super) async fn record(store: &PostgresStore, entries: &[LedgerEntry]) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let ours = classify::ours(WRITING);
    let mut transaction = aside(store).await?;
    let copied = async {
        let mut copy = transaction.copy_in_raw(include_str!("sql/copy_deliveries.sql")).await?;
        copy.send(lines(entries)).await?;
        copy.finish().await
    };
    match copied.await {
        Ok(_) => transaction.commit().await.map_err(ours),
        Err(error) if classify::is_duplicate(&error) => {
            transaction.rollback().await.map_err(ours)?;
            let mut transaction = aside(store).await?;
            insert_missing(store, entries).execute(&mut *transaction).await.map_err(ours)?;
            transaction.commit().await.map_err(ours)
        }
        Err(error) => Err(ours(error)),
    }
}

/// The ledger may lose its last lines with the server; it is not worth a wait for the disk.
async fn aside(store: &PostgresStore) -> Result<PgTransaction<'static>, StoreError> {
    let mut transaction = store.transaction(WRITING, ASIDE).await?;
    let set = (&mut *transaction).execute("SET LOCAL synchronous_commit = off").await;
    set.map_err(classify::ours(WRITING))?;
    Ok(transaction)
}

/// The lines as COPY takes them, in the order of its columns.
fn lines(entries: &[LedgerEntry]) -> Vec<u8> {
    let mut rows = CopyRows::new(COLUMNS, entries.len() * USUAL_LINE_BYTES);
    for entry in entries {
        rows.row()
            .uuid(entry.delivery_id)
            .int4(ordinal(entry))
            .timestamptz(entry.received_at)
            .text(Some(&storable(&entry.source)))
            .text(entry.event_id.as_deref().map(storable).as_deref())
            .text(entry.event_type.as_deref().map(storable).as_deref())
            .text(entry.idempotency_key.as_deref().map(storable).as_deref())
            .text(Some(entry.outcome.as_str()))
            .int2(rows::status(entry.status))
            .int8(micros(entry.duration))
            .int8(i64::from(entry.body_bytes))
            .text(entry.peer.as_deref().map(storable).as_deref())
            .text(entry.reason.as_deref().map(storable).as_deref())
            .text(rows::shown_headers(&entry.headers).as_deref());
    }
    rows.finish()
}

fn insert_missing(store: &PostgresStore, entries: &[LedgerEntry]) -> Query<'static> {
    let all = |read: fn(&LedgerEntry) -> Option<&str>| -> Vec<_> {
        entries.iter().map(|entry| read(entry).map(|text| storable(text).into_owned())).collect()
    };
    store
        .query(include_str!("sql/record_deliveries.sql"))
        .bind(entries.iter().map(|e| e.delivery_id).collect::<Vec<_>>())
        .bind(entries.iter().map(ordinal).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| e.received_at).collect::<Vec<_>>())
        .bind(all(|e| Some(&e.source)))
        .bind(all(|e| e.event_id.as_deref()))
        .bind(all(|e| e.event_type.as_deref()))
        .bind(all(|e| e.idempotency_key.as_deref()))
        .bind(all(|e| Some(e.outcome.as_str())))
        .bind(entries.iter().map(|e| rows::status(e.status)).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| micros(e.duration)).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| i64::from(e.body_bytes)).collect::<Vec<_>>())
        .bind(all(|e| e.peer.as_deref()))
        .bind(all(|e| e.reason.as_deref()))
        .bind(entries.iter().map(|e| rows::shown_headers(&e.headers)).collect::<Vec<_>>())
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
        .bind(outcomes(filter))
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

/// `None`: any.
fn outcomes(filter: &LedgerFilter) -> Option<Vec<&'static str>> {
    let wanted = || filter.outcomes.iter().map(|outcome| outcome.as_str()).collect();
    (!filter.outcomes.is_empty()).then(wanted)
}

fn ordinal(entry: &LedgerEntry) -> i32 {
    i32::try_from(entry.ordinal).unwrap_or(i32::MAX)
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
        headers: rows::read_shown_headers(row.try_get("headers")?)?,
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
