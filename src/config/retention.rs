//! `[retention]`: how long rows count, and when those that do not are deleted.
//!
//! Expiry is judged when a row is read; the pruner only makes room. The sense of the windows is
//! checked here: a combination that could let one event take effect twice is refused.

use std::time::Duration;

use serde::Deserialize;

use crate::store::{Prunable, Windows};

use super::duration::{self, show};
use super::report::Report;

/// How long rows count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// How long an event key is remembered: its event takes effect once within this time.
    #[serde(with = "duration")]
    pub processed_events: Duration,
    /// How long an answer is replayed, byte for byte.
    #[serde(with = "duration")]
    pub idempotency_keys: Duration,
    /// How long a message that was sent on is kept.
    #[serde(with = "duration")]
    pub outbox_sent: Duration,
    /// How long an event that was refused waits for a person.
    #[serde(with = "duration")]
    pub dead_letters: Duration,
    /// How long the ledger of deliveries is kept.
    #[serde(with = "duration")]
    pub deliveries: Duration,
    /// The pause between two rounds of deleting.
    #[serde(with = "duration")]
    pub prune_every: Duration,
    /// Rows that one transaction deletes.
    pub prune_batch_rows: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            processed_events: days(30),
            idempotency_keys: days(1),
            outbox_sent: days(8),
            dead_letters: days(15),
            deliveries: days(3),
            prune_every: Duration::from_secs(30),
            prune_batch_rows: 1000,
        }
    }
}

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 24 * 60 * 60)
}

/// Beyond this, a window is a typing error; date arithmetic stays far from its limits.
const LONGEST: Duration = days(100 * 365);
/// Few enough rows that a transaction stays short.
const LARGEST_PRUNE_BATCH: u32 = 100_000;

impl Retention {
    /// How long the rows of a table are kept.
    #[must_use]
    pub fn keep(&self, what: Prunable) -> Duration {
        match what {
            Prunable::ProcessedEvents => self.processed_events,
            Prunable::IdempotencyKeys => self.idempotency_keys,
            Prunable::DeadLetters => self.dead_letters,
            Prunable::Deliveries => self.deliveries,
            Prunable::OutboxSent => self.outbox_sent,
        }
    }

    /// The windows that the inbox judges by.
    #[must_use]
    pub fn windows(&self) -> Windows {
        Windows { events: self.processed_events, answers: self.idempotency_keys }
    }

    /// `horizons`: how long each source's sender retries, with the key that says so.
    /// `receivers`: how long each destination's receiver remembers keys.
    pub(super) fn check(
        &self,
        horizons: &[(String, Duration)],
        receivers: &[(String, Duration)],
        report: &mut Report,
    ) {
        for (key, window) in [
            ("processed_events", self.processed_events),
            ("idempotency_keys", self.idempotency_keys),
            ("outbox_sent", self.outbox_sent),
            ("dead_letters", self.dead_letters),
            ("deliveries", self.deliveries),
            ("prune_every", self.prune_every),
        ] {
            if window.is_zero() || window > LONGEST {
                report.error(
                    &format!("retention.{key}"),
                    "write a time longer than nothing and shorter than 100 years",
                );
            }
        }
        if !(1..=LARGEST_PRUNE_BATCH).contains(&self.prune_batch_rows) {
            report.error(
                "retention.prune_batch_rows",
                format!("write a number from 1 to {LARGEST_PRUNE_BATCH}"),
            );
        }
        if self.idempotency_keys > self.processed_events {
            report.error("retention.idempotency_keys", format!(
                "answers would be kept for {} but event keys only for {}, so an event could take effect again while its answer is still replayed; set idempotency_keys to {1} or less, or processed_events to {0} or more",
                show(self.idempotency_keys), show(self.processed_events),
            ));
        }
        if self.processed_events < self.dead_letters {
            report.error("retention.processed_events", format!(
                "event keys would be forgotten after {} while dead letters can be retried for {}, so a retry could apply an event twice; set processed_events to {1} or more, or dead_letters to {0} or less",
                show(self.processed_events), show(self.dead_letters),
            ));
        }
        if self.outbox_sent <= self.idempotency_keys {
            report.error("retention.outbox_sent", format!(
                "sent messages would be deleted after {}, not later than the answers ({}) that tell of them; set outbox_sent to more than {1}",
                show(self.outbox_sent), show(self.idempotency_keys),
            ));
        }
        for (key, kept) in receivers {
            if self.outbox_sent <= *kept {
                report.error(key, format!(
                    "this receiver remembers keys for {}, but sent messages are deleted after {} (retention.outbox_sent), so a second delivery could not be compared with the first; set retention.outbox_sent to more than {0}",
                    show(*kept), show(self.outbox_sent),
                ));
            }
        }
        for (key, horizon) in horizons {
            if self.processed_events < *horizon {
                report.error(key, format!(
                    "this sender retries for {}, but event keys are forgotten after {} (retention.processed_events), so a late retry would take effect again; set retention.processed_events to {0} or more",
                    show(*horizon), show(self.processed_events),
                ));
            }
        }
    }
}
