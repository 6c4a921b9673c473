//! `[inbox]`: how deliveries are gathered into transactions, and how long anybody waits.

use std::time::Duration;

use serde::Deserialize;

use super::duration::{self, show};
use super::report::Report;

/// Group commit and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InboxSection {
    /// Transactions open at a time. SQLite has one writer whatever stands here.
    pub writers: usize,
    /// Deliveries of one transaction at most.
    pub max_batch: usize,
    /// Deliveries that wait for one writer; one more is answered 503.
    pub queue: usize,
    /// How long a delivery waits for the same one in progress elsewhere, before it is answered 409.
    #[serde(with = "duration")]
    pub inflight_wait: Duration,
    /// After this time a delivery is answered 503.
    #[serde(with = "duration")]
    pub deadline: Duration,
    /// The longest one handler statement may run.
    #[serde(with = "duration")]
    pub handler_timeout: Duration,
}

impl Default for InboxSection {
    fn default() -> Self {
        Self {
            writers: 1,
            max_batch: 256,
            queue: 4096,
            inflight_wait: Duration::from_secs(2),
            deadline: Duration::from_secs(10),
            handler_timeout: Duration::from_secs(5),
        }
    }
}

const MOST_WRITERS: usize = 64;
const LARGEST_BATCH: usize = 4096;
const LARGEST_QUEUE: usize = 1_000_000;

impl InboxSection {
    pub(super) fn check(&self, max_connections: u32, report: &mut Report) {
        if !(1..=MOST_WRITERS).contains(&self.writers) {
            report.error("inbox.writers", format!("write a number from 1 to {MOST_WRITERS}"));
        } else if self.writers >= max_connections as usize {
            report.error("inbox.writers", format!(
                "each writer holds a connection, and the ledger and the pruner need some too; set database.max_connections to more than {}",
                self.writers
            ));
        }
        if !(1..=LARGEST_BATCH).contains(&self.max_batch) {
            report.error("inbox.max_batch", format!("write a number from 1 to {LARGEST_BATCH}"));
        }
        if !(1..=LARGEST_QUEUE).contains(&self.queue) {
            report.error("inbox.queue", format!("write a number from 1 to {LARGEST_QUEUE}"));
        }
        if self.handler_timeout.is_zero() {
            report.error("inbox.handler_timeout", "no handler runs in no time; write at least \"100ms\"");
        }
        for (key, time) in [("handler_timeout", self.handler_timeout), ("inflight_wait", self.inflight_wait)]
        {
            if time >= self.deadline {
                report.error(&format!("inbox.{key}"), format!(
                    "{} is not shorter than deadline ({}), so the sender would be told 503 first; shorten it or lengthen deadline",
                    show(time), show(self.deadline),
                ));
            }
        }
    }
}
