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
    use super::*;

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
