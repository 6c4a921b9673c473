//! Notes what became of attempts: many in one transaction.
//!
//! The first result opens a batch and whatever waits already joins it. Nobody waits for the note but the
//! next message of an aggregate: while many results come and none of them frees one, the settler rests
//! between two batches, which makes them larger. While the database is away the
//! results are kept and tried again, as long as their leases can last; after that the messages are
//! somebody else's, and are delivered again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Hints;
use crate::store::Store;
use crate::store::outbox::Settlement;

/// Most results in one transaction.
const MAX_BATCH: usize = 512;
/// A batch of this size says that many results come …
const BUSY_BATCH: usize = 16;
/// … and that more together cost less.
const REST: Duration = Duration::from_millis(10);
/// Pause between two attempts to note the same results.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A result on its way, and the destination whose lane may have more to do afterwards.
pub(super) struct Result {
    pub settlement: Settlement,
    pub destination: Arc<str>,
}

/// Notes results until all senders are gone.
pub(super) async fn run(
    store: Arc<dyn Store>,
    mut results: mpsc::Receiver<Result>,
    hints: Hints,
    patience: Duration,
) {
    let mut batch: Vec<Result> = Vec::with_capacity(MAX_BATCH);
    while results.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let freed = settle(&*store, &batch, &hints, patience).await;
        if !freed && (BUSY_BATCH..MAX_BATCH).contains(&batch.len()) {
            tokio::time::sleep(REST).await;
        }
        batch.clear();
    }
}

/// Whether messages were freed that waited for these.
async fn settle(store: &dyn Store, batch: &[Result], hints: &Hints, patience: Duration) -> bool {
    let settlements: Vec<Settlement> = batch.iter().map(|result| result.settlement.clone()).collect();
    let give_up = Instant::now() + patience;
    let mut told = false;
    loop {
        match store.settle_messages(&settlements).await {
            Ok(settled) => {
                let stale = settlements.len() - settled.ids.len();
                if stale > 0 {
                    tracing::warn!(
                        messages = stale,
                        "leases had ended: these messages are another relay's now"
                    );
                }
                if settled.unparked {
                    batch.iter().for_each(|result| hints.ring(&result.destination));
                }
                return settled.unparked;
            }
            Err(error) if Instant::now() >= give_up => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    messages = settlements.len(),
                    "what became of messages could not be noted; those that arrived are delivered again"
                );
                return false;
            }
            Err(error) => {
                if !told {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "what became of messages could not be noted yet; it is tried again"
                    );
                    told = true;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}
