//! The names of all metrics, each with its help text.
//!
//! One catalogue, so that dashboards and alerts have one place to be checked against. Knows nothing
//! of how a value is recorded.

/// A metric by its registered name. The exposition appends `_total` to counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricName {
    Deliveries,
    DeliveryDuration,
    Events,
    SignatureMatched,
    BatchSize,
    CommitDuration,
    QueueDepth,
    InboxRows,
    LedgerDropped,
    PrunedRows,
    PruneLastSuccess,
    OutboxAttempts,
    OutboxAttemptDuration,
    OutboxArrivalAge,
    OutboxLeaseExpiries,
    OutboxUnsent,
    OutboxOldestUnsent,
    OutboxUnsentAgeP95,
    OutboxDeadLetters,
    Reloads,
    LastReloadSuccessful,
    CertificateEnd,
    ConsumerConnected,
    ConsumerUnacknowledged,
    BuildInfo,
    ResidentMemory,
    Uptime,
}

impl MetricName {
    /// All of them, in the order of the exposition.
    pub const ALL: [Self; 27] = [
        Self::Deliveries,
        Self::DeliveryDuration,
        Self::Events,
        Self::SignatureMatched,
        Self::BatchSize,
        Self::CommitDuration,
        Self::QueueDepth,
        Self::InboxRows,
        Self::LedgerDropped,
        Self::PrunedRows,
        Self::PruneLastSuccess,
        Self::OutboxAttempts,
        Self::OutboxAttemptDuration,
        Self::OutboxArrivalAge,
        Self::OutboxLeaseExpiries,
        Self::OutboxUnsent,
        Self::OutboxOldestUnsent,
        Self::OutboxUnsentAgeP95,
        Self::OutboxDeadLetters,
        Self::Reloads,
        Self::LastReloadSuccessful,
        Self::CertificateEnd,
        Self::ConsumerConnected,
        Self::ConsumerUnacknowledged,
        Self::BuildInfo,
        Self::ResidentMemory,
        Self::Uptime,
    ];

    /// The name a counter is registered under lacks the `_total` that the exposition appends.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deliveries => "hooklatch_deliveries",
            Self::DeliveryDuration => "hooklatch_delivery_duration_seconds",
            Self::Events => "hooklatch_events",
            Self::SignatureMatched => "hooklatch_signature_matched",
            Self::BatchSize => "hooklatch_batch_deliveries",
            Self::CommitDuration => "hooklatch_commit_duration_seconds",
            Self::QueueDepth => "hooklatch_queue_depth",
            Self::InboxRows => "hooklatch_inbox_rows",
            Self::LedgerDropped => "hooklatch_ledger_dropped",
            Self::PrunedRows => "hooklatch_pruned_rows",
            Self::PruneLastSuccess => "hooklatch_prune_last_success_timestamp_seconds",
            Self::OutboxAttempts => "hooklatch_outbox_attempts",
            Self::OutboxAttemptDuration => "hooklatch_outbox_attempt_duration_seconds",
            Self::OutboxArrivalAge => "hooklatch_outbox_arrival_age_seconds",
            Self::OutboxLeaseExpiries => "hooklatch_outbox_lease_expiries",
            Self::OutboxUnsent => "hooklatch_outbox_unsent",
            Self::OutboxOldestUnsent => "hooklatch_outbox_oldest_unsent_seconds",
            Self::OutboxUnsentAgeP95 => "hooklatch_outbox_unsent_age_p95_seconds",
            Self::OutboxDeadLetters => "hooklatch_outbox_dead_letters",
            Self::Reloads => "hooklatch_reloads",
            Self::LastReloadSuccessful => "hooklatch_last_reload_successful",
            Self::CertificateEnd => "hooklatch_certificate_end_timestamp_seconds",
            Self::ConsumerConnected => "hooklatch_consumer_connected",
            Self::ConsumerUnacknowledged => "hooklatch_consumer_unacknowledged",
            // The exposition appends `_info`.
            Self::BuildInfo => "hooklatch_build",
            Self::ResidentMemory => "process_resident_memory_bytes",
            Self::Uptime => "hooklatch_uptime_seconds",
        }
    }

    /// One line for the person who reads the exposition; the encoder adds the full stop.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Deliveries => "Deliveries by what became of them",
            Self::DeliveryDuration => "Time from the head of a request to its answer",
            Self::Events => "Events by what one delivery of them met",
            Self::SignatureMatched => "Verified deliveries by the place of the secret that matched",
            Self::BatchSize => "Deliveries in one transaction",
            Self::CommitDuration => "Time a transaction took, from begin to commit",
            Self::QueueDepth => "Deliveries that wait for a writer",
            Self::InboxRows => "Rows of processed_events, an estimate on PostgreSQL",
            Self::LedgerDropped => "Ledger entries dropped because the ledger could not keep up",
            Self::PrunedRows => "Rows deleted by retention",
            Self::PruneLastSuccess => "When the pruner last finished a round without an error",
            Self::OutboxAttempts => "Attempts to deliver messages by what came of them",
            Self::OutboxAttemptDuration => "Time an attempt to deliver a message took",
            Self::OutboxArrivalAge => "Time from the writing of a message to its arrival",
            Self::OutboxLeaseExpiries => "Messages whose relay said nothing until its lease ended",
            Self::OutboxUnsent => "Messages that are not sent yet",
            Self::OutboxOldestUnsent => "Age of the oldest message that is not sent",
            Self::OutboxUnsentAgeP95 => {
                "95th percentile of the ages of messages that are not sent: one in twenty is older"
            }
            Self::OutboxDeadLetters => "Messages that were given up and wait for a person",
            Self::Reloads => {
                "Times that the configuration or a certificate was read again, by what came of it"
            }
            Self::LastReloadSuccessful => {
                "Whether what was last read could be used: 1, or 0 while the old stays"
            }
            Self::CertificateEnd => "When the certificate of a listener ends",
            Self::ConsumerConnected => "Whether messages of a source's queue can be taken: 1 or 0",
            Self::ConsumerUnacknowledged => "Messages taken from a queue and not acknowledged yet",
            Self::BuildInfo => "The version that runs",
            Self::ResidentMemory => "Resident memory of the process",
            Self::Uptime => "Seconds since the process started",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_metric_has_its_own_name() {
        let names: HashSet<_> = MetricName::ALL.into_iter().map(MetricName::as_str).collect();
        assert_eq!(names.len(), MetricName::ALL.len());
    }
}
