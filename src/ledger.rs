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

/// Most bytes of headers that wait: beyond, refused deliveries are noted without theirs.
const MAX_HEADER_BYTES: usize = 16 * 1024 * 1024;

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
    waiting: Mutex<Waiting>,
    capacity: usize,
    /// Rung when a full write waits.
    full: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: Vec<LedgerEntry>,
    /// What the headers of refused deliveries among them hold.
    header_bytes: usize,
}

impl Waiting {
    fn push(&mut self, mut entry: LedgerEntry) {
        let bytes: usize = entry.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if self.header_bytes + bytes > MAX_HEADER_BYTES {
            entry.headers = Vec::new();
        } else {
            self.header_bytes += bytes;
        }
        self.entries.push(entry);
    }
}

impl Ledger {
    /// Starts the writer on the current runtime. At most `capacity` entries wait.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, capacity: usize, metrics: Arc<Metrics>) -> Self {
        let buffer = Arc::new(Buffer { waiting: Mutex::default(), capacity, full: Notify::new(), metrics });
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
            if waiting.entries.len() < self.buffer.capacity {
                waiting.push(entry);
            } else {
                dropped += 1;
            }
        }
        let is_full = waiting.entries.len() >= MAX_WRITE;
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
        if waiting.entries.len() <= MAX_WRITE {
            return std::mem::take(&mut *waiting).entries;
        }
        let mut rest = Waiting::default();
        waiting.entries.split_off(MAX_WRITE).into_iter().for_each(|entry| rest.push(entry));
        std::mem::replace(&mut *waiting, rest).entries
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
        let mut entries = buffer.take();
        if entries.is_empty() {
            return true;
        }
        // In the order of the primary key: each line then goes to where the last one went.
        entries.sort_unstable_by_key(|entry| (entry.delivery_id, entry.ordinal));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::outcome::Outcome;

    fn refused(header_bytes: usize) -> LedgerEntry {
        LedgerEntry {
            delivery_id: uuid::Uuid::nil(),
            ordinal: 0,
            received_at: chrono::DateTime::UNIX_EPOCH,
            source: "shop".into(),
            event_id: None,
            event_type: None,
            idempotency_key: None,
            outcome: Outcome::Unverified,
            status: 401,
            duration: Duration::ZERO,
            body_bytes: 0,
            peer: None,
            reason: None,
            headers: vec![(String::new(), "x".repeat(header_bytes))],
        }
    }

    #[test]
    fn a_flood_of_refused_deliveries_keeps_its_lines_and_loses_its_headers() {
        let mut waiting = Waiting::default();
        waiting.push(refused(MAX_HEADER_BYTES));
        waiting.push(refused(1));
        let kept: Vec<_> = waiting.entries.iter().map(|entry| entry.headers.len()).collect();
        assert_eq!((kept, waiting.header_bytes), (vec![1, 0], MAX_HEADER_BYTES));
    }
}
