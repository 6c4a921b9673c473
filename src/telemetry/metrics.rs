//! The metrics, as methods in the words of the domain; names and labels are a matter of this file.

use std::time::Duration;

use crate::inbox::outcome::Outcome;
use crate::store::Prunable;

/// All metrics of one process. Cheap to record, shared by `Arc`.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// A delivery was answered.
    pub fn delivery(&self, _source: &str, _outcome: Outcome, _latency: Duration) {}
    /// A batch was committed (or failed): how many deliveries, how long the commit took.
    pub fn batch(&self, _deliveries: usize, _commit: Duration) {}
    /// Deliveries waiting for a writer.
    pub fn queue_depth(&self, _waiting: usize) {}
    /// Ledger entries that were dropped because the ledger could not keep up.
    pub fn ledger_dropped(&self, _entries: u64) {}
    /// Rows that retention deleted.
    pub fn pruned(&self, _what: Prunable, _rows: u64) {}
    /// The pruner finished a round without an error, at this time (seconds since the epoch).
    pub fn prune_succeeded(&self, _at_unix_seconds: i64) {}
    /// Rows of `processed_events`.
    pub fn inbox_rows(&self, _rows: u64) {}
}
