//! What retention deletes, and what it would.

use std::time::Duration;

use super::rows::{first_delivery_id, horizon};
use super::{SqliteStore, classify, connect};
use crate::store::{Prunable, StoreError};

/// Counts no further than the first row.
const FIRST: i64 = 1;
/// SQLite's word for no limit.
const ALL: i64 = -1;

pub(super) async fn prune(
    store: &SqliteStore,
    what: Prunable,
    keep: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let prune = match what {
        Prunable::ProcessedEvents => include_str!("sql/prune_processed_events.sql"),
        Prunable::IdempotencyKeys => include_str!("sql/prune_idempotency_keys.sql"),
        Prunable::DeadLetters => include_str!("sql/prune_dead_letters.sql"),
        Prunable::Deliveries => include_str!("sql/prune_deliveries.sql"),
        Prunable::OutboxSent => include_str!("sql/prune_outbox_sent.sql"),
    };
    // A look first: most rounds find nothing, and need not write.
    if count(store, what, keep, FIRST).await? == 0 {
        return Ok(0);
    }
    let mut lease = store.writer.begin(connect::PATIENCE, None).await?;
    let horizon = horizon(store.clock.now(), keep);
    if what == Prunable::OutboxSent {
        let attempts = sqlx::query(include_str!("sql/prune_outbox_attempts.sql")).bind(horizon).bind(limit);
        lease.execute("prune", attempts).await?;
    }
    let prune = match what {
        Prunable::Deliveries => sqlx::query(prune).bind(first_delivery_id(horizon)),
        _ => sqlx::query(prune).bind(horizon),
    };
    let prune = prune.bind(limit);
    let deleted = lease.execute("prune", prune).await?;
    lease.commit().await?;
    Ok(deleted)
}

pub(super) async fn count_prunable(
    store: &SqliteStore,
    what: Prunable,
    keep: Duration,
) -> Result<u64, StoreError> {
    count(store, what, keep, ALL).await
}

async fn count(store: &SqliteStore, what: Prunable, keep: Duration, most: i64) -> Result<u64, StoreError> {
    let count = match what {
        Prunable::ProcessedEvents => include_str!("sql/count_prunable_processed_events.sql"),
        Prunable::IdempotencyKeys => include_str!("sql/count_prunable_idempotency_keys.sql"),
        Prunable::DeadLetters => include_str!("sql/count_prunable_dead_letters.sql"),
        Prunable::Deliveries => include_str!("sql/count_prunable_deliveries.sql"),
        Prunable::OutboxSent => include_str!("sql/count_prunable_outbox_sent.sql"),
    };
    let horizon = horizon(store.clock.now(), keep);
    let count = match what {
        Prunable::Deliveries => sqlx::query_scalar(count).bind(first_delivery_id(horizon)),
        _ => sqlx::query_scalar(count).bind(horizon),
    };
    let counted: i64 = count
        .bind(most)
        .fetch_one(&store.readers)
        .await
        .map_err(classify::ours("count what can be pruned"))?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn inbox_rows(store: &SqliteStore) -> Result<u64, StoreError> {
    let rows: i64 = sqlx::query_scalar(include_str!("sql/inbox_rows.sql"))
        .fetch_one(&store.readers)
        .await
        .map_err(classify::ours("count the inbox"))?;
    Ok(rows.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions as _, Connection as _};

    use super::*;
    use crate::clock::Clock;
    use crate::store::Store;
    use crate::store::outbox::OutboxStore;

    #[tokio::test]
    async fn rounds_with_nothing_to_do_wait_for_no_writer() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("idle.db");
        let url = format!("sqlite://{}", file.display());
        let store = SqliteStore::connect(&url, Clock::system()).await.expect("opens");
        store.migrate().await.expect("migrates");
        let mut other = SqliteConnectOptions::new().filename(&file).connect().await.expect("opens");
        sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.expect("nobody else writes");
        for what in Prunable::ALL {
            assert_eq!(store.prune(what, Duration::ZERO, 1).await.expect("needs no lock"), 0, "{what:?}");
        }
        assert_eq!(store.free_orphans("crm").await.expect("needs no lock"), 0);
        other.close().await.expect("closes");
    }
}
