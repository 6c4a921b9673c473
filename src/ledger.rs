//! The ledger: what arrived and what became of it, written beside the hot path.
//!
//! The inbox is exact; the ledger is bounded. Entries wait in a bounded buffer and are written in
//! batches of their own; when the database cannot keep up, entries are dropped and counted, and no
//! delivery waits for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alarm::Alarm;
use crate::inbox::with_causes;
use crate::store::{LedgerEntry, Store};
use crate::telemetry::metrics::Metrics;

/// Most entries written by one statement.
const MAX_WRITE: usize = 2_000;

/// How long entries are collected before they are written: an operator who asks sees what happened
/// up to here.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// Pause after a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The handle to the ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger {
    buffer: Arc<Buffer>,
    stop: CancellationToken,
    crashed: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Buffer {
    waiting: Mutex<Vec<LedgerEntry>>,
    capacity: usize,
    /// Rung when a full write waits.
    full: Notify,
    metrics: Arc<Metrics>,
}

impl Ledger {
    /// Starts the writer on the current runtime. At most `capacity` entries wait.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, capacity: usize, metrics: Arc<Metrics>) -> Self {
        let buffer =
            Arc::new(Buffer { waiting: Mutex::new(Vec::new()), capacity, full: Notify::new(), metrics });
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let crashed = CancellationToken::new();
        let alarm = Alarm::new(&stop, &crashed);
        let work = write_loop(store, buffer.clone(), stop.clone());
        tasks.spawn(async move {
            let _alarm = alarm;
            work.await;
        });
        Self { buffer, stop, crashed, tasks }
    }

    /// Notes entries. Never waits: what does not fit is dropped and counted.
    pub fn record(&self, entries: impl IntoIterator<Item = LedgerEntry>) {
        let mut waiting = self.buffer.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        for entry in entries {
            if waiting.len() < self.buffer.capacity {
                waiting.push(entry);
            } else {
                dropped += 1;
            }
        }
        let is_full = waiting.len() >= MAX_WRITE;
        drop(waiting);
        if is_full {
            self.buffer.full.notify_one();
        }
        if dropped > 0 {
            self.buffer.metrics.ledger_dropped(dropped);
        }
    }

    /// Ends when the writing has ended though nobody told it to.
    pub async fn crashed(&self) {
        self.crashed.cancelled().await;
    }

    /// Writes what waits and stops.
    pub async fn flush_and_stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Buffer {
    /// Takes what one statement may write.
    fn take(&self) -> Vec<LedgerEntry> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() <= MAX_WRITE {
            return std::mem::take(&mut *waiting);
        }
        let rest = waiting.split_off(MAX_WRITE);
        std::mem::replace(&mut *waiting, rest)
    }
}

async fn write_loop(store: Arc<dyn Store>, buffer: Arc<Buffer>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = tokio::time::sleep(WRITE_EVERY) => {}
            () = buffer.full.notified() => {}
            () = stop.cancelled() => {}
        }
        if !write_waiting(&*store, &buffer).await && !stop.is_cancelled() {
            tokio::select! {
                () = tokio::time::sleep(RETRY_AFTER) => {}
                () = stop.cancelled() => {}
            }
        }
    }
    write_waiting(&*store, &buffer).await;
}

/// Writes until nothing waits; false after a failure, whose entries are lost and counted.
async fn write_waiting(store: &dyn Store, buffer: &Buffer) -> bool {
    loop {
        let entries = buffer.take();
        if entries.is_empty() {
            return true;
        }
        if let Err(error) = store.record_deliveries(&entries).await {
            buffer.metrics.ledger_dropped(entries.len() as u64);
            tracing::warn!(
                error.reason = %with_causes(&error),
                entries = entries.len(),
                "ledger entries were dropped",
            );
            return false;
        }
    }
}
