//! What retention deletes, and what it would; the database's clock; how much there is.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::connect::ASIDE;
use super::rows::seconds;
use super::{PostgresStore, classify};
use crate::store::{Prunable, StoreError};

const PRUNING: &str = "prune";
const COUNTING: &str = "count what can be pruned";

/// How much longer than `keep` event keys and idempotency keys stay in the table. A transaction that
/// began before a row expired may still meet its key after the row is deleted, and would take the
/// event for new by a clock that says it is not. Reading judges exactly.
const PRUNE_GRACE: Duration = Duration::from_secs(5);

pub(super) async fn prune(
    store: &PostgresStore,
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
    let ours = classify::ours(PRUNING);
    let mut transaction = store.transaction(PRUNING, ASIDE).await?;
    // Planned anew each time: a plan made while the table was small would read all of it.
    let prune = sqlx::query(prune).persistent(false).bind(age(what, keep)).bind(i64::from(limit));
    let pruned = prune.execute(&mut *transaction).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)?;
    Ok(pruned.rows_affected())
}

pub(super) async fn count_prunable(
    store: &PostgresStore,
    what: Prunable,
    keep: Duration,
) -> Result<u64, StoreError> {
    let count = match what {
        Prunable::ProcessedEvents => include_str!("sql/count_prunable_processed_events.sql"),
        Prunable::IdempotencyKeys => include_str!("sql/count_prunable_idempotency_keys.sql"),
        Prunable::DeadLetters => include_str!("sql/count_prunable_dead_letters.sql"),
        Prunable::Deliveries => include_str!("sql/count_prunable_deliveries.sql"),
        Prunable::OutboxSent => include_str!("sql/count_prunable_outbox_sent.sql"),
    };
    let ours = classify::ours(COUNTING);
    let mut transaction = store.transaction(COUNTING, ASIDE).await?;
    let count = sqlx::query_scalar(count).persistent(false).bind(age(what, keep));
    let counted: i64 = count.fetch_one(&mut *transaction).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)?;
    Ok(counted.unsigned_abs())
}

pub(super) async fn now(store: &PostgresStore) -> Result<DateTime<Utc>, StoreError> {
    store.ask("ask the database for the time", include_str!("sql/now.sql")).await
}

pub(super) async fn inbox_rows(store: &PostgresStore) -> Result<u64, StoreError> {
    let rows: i64 = store.ask("count the inbox", include_str!("sql/inbox_rows.sql")).await?;
    Ok(rows.unsigned_abs())
}

fn age(what: Prunable, keep: Duration) -> f64 {
    match what {
        Prunable::ProcessedEvents | Prunable::IdempotencyKeys => seconds(keep.saturating_add(PRUNE_GRACE)),
        Prunable::DeadLetters | Prunable::Deliveries | Prunable::OutboxSent => seconds(keep),
    }
}
