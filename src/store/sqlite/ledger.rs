//! The ledger: what arrived and what became of it.

use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite};

use super::many_rows::{MAX_ROWS, ManyRows};
use super::{SqliteStore, classify, connect, rows};
use crate::inbox::outcome::Outcome;
use crate::store::{LedgerEntry, LedgerFilter, StoreError};

/// How far a delivery's time may lie after the making of its id.
const SLACK_MICROS: i64 = 60_000_000;

static RECORD: ManyRows = ManyRows::new(include_str!("sql/record_deliveries.sql"));

pub(super) async fn record(store: &SqliteStore, entries: &[LedgerEntry]) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut lease = store.writer.begin(connect::PATIENCE, None).await?;
    for entries in entries.chunks(MAX_ROWS) {
        let record = entries.iter().fold(sqlx::query(RECORD.of(entries.len())), bind_line);
        lease.execute("write the ledger", record).await?;
    }
    lease.commit().await
}

pub(super) async fn read(store: &SqliteStore, filter: &LedgerFilter) -> Result<Vec<LedgerEntry>, StoreError> {
    let reading = classify::ours("read the ledger");
    if filter.limit == 0 {
        return Ok(Vec::new());
    }
    let since = filter.since.map(rows::micros);
    sqlx::query(include_str!("sql/deliveries.sql"))
        .bind(since.map(|since| rows::first_delivery_id(since.saturating_sub(SLACK_MICROS))))
        .bind(filter.before.map(uuid::Uuid::hyphenated))
        .bind(since)
        .bind(&filter.source)
        .bind(outcomes(filter))
        .bind(&filter.event_id)
        .bind(filter.limit)
        .fetch_all(&store.readers)
        .await
        .map_err(&reading)?
        .iter()
        .map(entry)
        .collect::<Result<_, _>>()
        .map_err(reading)
}

/// `None`: any.
fn outcomes(filter: &LedgerFilter) -> Option<String> {
    let wanted = || rows::json(&filter.outcomes.iter().map(|outcome| outcome.as_str()).collect::<Vec<_>>());
    (!filter.outcomes.is_empty()).then(wanted)
}

fn bind_line<'q>(
    record: Query<'q, Sqlite, SqliteArguments>,
    entry: &LedgerEntry,
) -> Query<'q, Sqlite, SqliteArguments> {
    let text = |text: Option<&str>| text.map(str::to_owned);
    record
        .bind(entry.delivery_id.hyphenated().to_string())
        .bind(entry.ordinal)
        .bind(rows::micros(entry.received_at))
        .bind(entry.source.to_string())
        .bind(text(entry.event_id.as_deref()))
        .bind(text(entry.event_type.as_deref()))
        .bind(text(entry.idempotency_key.as_deref()))
        .bind(entry.outcome.as_str())
        .bind(entry.status)
        .bind(i64::try_from(entry.duration.as_micros()).unwrap_or(i64::MAX))
        .bind(entry.body_bytes)
        .bind(text(entry.peer.as_deref()))
        .bind(entry.reason.clone())
        .bind(rows::shown_headers(&entry.headers))
}

fn entry(row: &SqliteRow) -> Result<LedgerEntry, sqlx::Error> {
    let outcome: &str = row.try_get("outcome")?;
    let duration: i64 = row.try_get("duration_us")?;
    Ok(LedgerEntry {
        delivery_id: row.try_get::<uuid::fmt::Hyphenated, _>("delivery_id")?.into_uuid(),
        ordinal: row.try_get("ordinal")?,
        received_at: rows::time(row, "received_at")?,
        source: row.try_get("source")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        idempotency_key: row.try_get("idempotency_key")?,
        outcome: Outcome::parse(outcome).ok_or_else(|| rows::unreadable("an outcome"))?,
        status: row.try_get("status")?,
        duration: Duration::from_micros(duration.unsigned_abs()),
        body_bytes: row.try_get("body_bytes")?,
        peer: row.try_get("peer")?,
        reason: row.try_get("reason")?,
        headers: rows::read_shown_headers(row.try_get("headers")?)?,
    })
}
