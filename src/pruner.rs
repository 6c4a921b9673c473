//! Deletes what retention no longer keeps: small batches, one short transaction each.
//!
//! Pruning makes room and nothing else: an expired row counts as absent whether it is still there
//! or not, so it does not matter when a round runs, how far it comes, or how many replicas prune at
//! once. The step is [`prune_round`], which tests and `hooklatch prune` call; [`run`] is the loop.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Retention;
use crate::store::{Prunable, Store, StoreError};
use crate::telemetry::metrics::Metrics;

/// The pause after a failed round is at least this long, whatever `prune_every` says …
const SHORTEST_BACKOFF: Duration = Duration::from_secs(1);
/// … doubles with each further failure, and ends here.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// Counting the inbox may cost a scan: not more often than this.
const SAMPLE_INBOX_EVERY: Duration = Duration::from_secs(10);

/// How many rows a round deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Per table, in the order in which they were pruned.
    pub rows: Vec<(Prunable, u64)>,
    /// The round was stopped before everything expired was gone.
    pub stopped: bool,
}

impl Pruned {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().map(|(_, rows)| rows).sum()
    }
}

/// Deletes everything that has expired, `retention.prune_batch_rows` at a time. After each batch
/// `progress` is told how many rows of which table went, and decides whether to go on.
///
/// # Errors
/// When the store fails. What was deleted before stays deleted.
pub async fn prune_round(
    store: &dyn Store,
    retention: &Retention,
    mut progress: impl FnMut(Prunable, u64) -> ControlFlow<()> + Send,
) -> Result<Pruned, StoreError> {
    let batch = retention.prune_batch_rows.max(1);
    let mut pruned = Pruned::default();
    for what in Prunable::ALL {
        let keep = retention.keep(what);
        let mut rows = 0;
        loop {
            let deleted = store.prune(what, keep, batch).await?;
            rows += deleted;
            if progress(what, deleted).is_break() {
                pruned.stopped = true;
                break;
            }
            if deleted < u64::from(batch) {
                break;
            }
            // Let deliveries have the connection in between.
            tokio::task::yield_now().await;
        }
        pruned.rows.push((what, rows));
        if pruned.stopped {
            break;
        }
    }
    Ok(pruned)
}

/// The scheduled pruner of one process.
#[derive(Clone)]
pub struct Pruner {
    pub store: Arc<dyn Store>,
    pub retention: Retention,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
}

impl std::fmt::Debug for Pruner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pruner").field("retention", &self.retention).finish_non_exhaustive()
    }
}

/// Prunes every `retention.prune_every` until `stop`. Never ends on an error: it says so once, waits
/// longer and longer, and says when it works again.
pub async fn run(pruner: Pruner, stop: CancellationToken) {
    let mut failures = 0;
    let mut sampled: Option<Instant> = None;
    while !stop.is_cancelled() {
        match pruner.round(&stop, &mut sampled).await {
            Ok(pruned) => {
                if failures > 0 {
                    tracing::info!(prune.failures = failures, "pruning works again");
                }
                failures = 0;
                if pruned.total() > 0 {
                    tracing::debug!(prune.rows = pruned.total(), "pruned expired rows");
                }
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "pruning failed; expired rows stay until it works again"
                    );
                }
            }
        }
        let pause = pause_after(failures, pruner.retention.prune_every);
        let _: Option<()> = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

impl Pruner {
    async fn round(
        &self,
        stop: &CancellationToken,
        sampled: &mut Option<Instant>,
    ) -> Result<Pruned, StoreError> {
        let pruned = prune_round(&*self.store, &self.retention, |what, rows| {
            self.metrics.pruned(what, rows);
            if stop.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await?;
        if !pruned.stopped {
            self.metrics.prune_succeeded(self.clock.now().timestamp());
        }
        if sampled.is_none_or(|at| at.elapsed() >= SAMPLE_INBOX_EVERY) && !stop.is_cancelled() {
            self.metrics.inbox_rows(self.store.inbox_rows().await?);
            *sampled = Some(Instant::now());
        }
        Ok(pruned)
    }
}

/// How long to wait after so many failures in a row.
fn pause_after(failures: u32, every: Duration) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return every };
    let factor = 2_u32.saturating_pow(doublings);
    let backoff = every.max(SHORTEST_BACKOFF).saturating_mul(factor);
    backoff.min(LONGEST_BACKOFF.max(every))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::inbox::outcome::Outcome;
    use crate::store::awaited::AwaitedStore;
    use crate::store::sqlite::SqliteStore;
    use crate::store::{Dialect, LedgerEntry, LedgerFilter};

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let url = format!("sqlite://{}", directory.path().join("prune.db").display());
        let store = SqliteStore::connect(&url, Clock::system()).await.expect("a database");
        store.migrate().await.expect("a schema");
        (directory, Arc::new(store))
    }

    /// The age of a delivery is in its id.
    fn delivery(received_at: DateTime<Utc>, ordinal: u32) -> LedgerEntry {
        let millis = u64::try_from(received_at.timestamp_millis()).expect("after 1970");
        LedgerEntry {
            delivery_id: uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid(),
            ordinal,
            received_at,
            source: "shop".into(),
            event_id: None,
            event_type: None,
            idempotency_key: None,
            outcome: Outcome::Malformed,
            status: 400,
            duration: Duration::ZERO,
            body_bytes: 0,
            peer: None,
            reason: None,
            headers: Vec::new(),
        }
    }

    async fn with_expired_deliveries(count: u32) -> (tempfile::TempDir, Arc<dyn Store>) {
        let (directory, store) = store().await;
        let long_ago = Clock::system().now() - chrono::TimeDelta::days(30);
        let mut entries: Vec<_> = (0..count).map(|ordinal| delivery(long_ago, ordinal)).collect();
        entries.push(delivery(Clock::system().now(), 0));
        store.record_deliveries(&entries).await.expect("recorded");
        (directory, store)
    }

    async fn left(store: &dyn Store) -> usize {
        let filter = LedgerFilter { limit: 1000, ..LedgerFilter::default() };
        store.deliveries(&filter).await.expect("read").len()
    }

    #[tokio::test]
    async fn a_round_deletes_in_batches_until_a_short_one_and_keeps_what_counts() {
        let (_directory, store) = with_expired_deliveries(25).await;
        let retention = Retention { prune_batch_rows: 10, ..Retention::default() };
        let mut batches = Vec::new();
        let pruned = prune_round(&*store, &retention, |what, rows| {
            if what == Prunable::Deliveries {
                batches.push(rows);
            }
            ControlFlow::Continue(())
        })
        .await
        .expect("pruned");
        assert_eq!(batches, [10, 10, 5]);
        assert_eq!(pruned.total(), 25);
        assert!(!pruned.stopped);
        assert_eq!(left(&*store).await, 1);
    }

    #[tokio::test]
    async fn a_round_that_is_told_to_stop_ends_after_the_batch() {
        let (_directory, store) = with_expired_deliveries(25).await;
        let retention = Retention { prune_batch_rows: 10, ..Retention::default() };
        let pruned = prune_round(&*store, &retention, |what, _| match what {
            Prunable::Deliveries => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .await
        .expect("pruned");
        assert!(pruned.stopped);
        assert_eq!(left(&*store).await, 16);
    }

    #[tokio::test]
    async fn the_loop_outlives_a_store_that_fails_and_ends_when_it_is_told_to() {
        let pruner = Pruner {
            store: Arc::new(AwaitedStore::new(Dialect::Postgres)),
            retention: Retention { prune_every: Duration::from_millis(1), ..Retention::default() },
            metrics: Arc::new(Metrics::new()),
            clock: Clock::system(),
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn(run(pruner, stop.clone()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!running.is_finished());
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), running)
            .await
            .expect("it ends")
            .expect("without a panic");
    }

    #[test]
    fn the_pause_grows_with_failures_and_ends() {
        let short = Duration::from_millis(1);
        let pauses: Vec<_> = (0..4).map(|failures| pause_after(failures, short)).collect();
        assert_eq!(pauses, [short, SHORTEST_BACKOFF, 2 * SHORTEST_BACKOFF, 4 * SHORTEST_BACKOFF]);
        assert_eq!(pause_after(1000, short), LONGEST_BACKOFF);
        let hour = Duration::from_secs(3600);
        assert_eq!(pause_after(1, hour), hour);
    }
}
