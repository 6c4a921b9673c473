//! The metrics of the outbox and its relay, by destination.
//!
//! Labels are bounded: only configured destinations get series of their own, everything else is
//! counted under [`UNKNOWN_DESTINATION`].

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::outbox::destination::Meaning;
use crate::store::outbox::Backlog;
use crate::telemetry::metric_name::MetricName;
use crate::telemetry::metrics::add;

/// The `destination` label of messages for a destination that is not configured.
pub const UNKNOWN_DESTINATION: &str = "unknown";

const MEANINGS: [Meaning; 5] = [
    Meaning::Accepted,
    Meaning::Failed { retry_after: None },
    Meaning::Throttled { retry_after: None },
    Meaning::Refused,
    Meaning::Gone,
];

/// One millisecond to 65 s, doubling: an attempt.
fn attempt_buckets() -> impl Iterator<Item = f64> {
    const COUNT: u16 = 17;
    exponential_buckets(0.001, 2.0, COUNT)
}

/// Five milliseconds to 14 days, four times each: from the writing of a message to its arrival.
fn age_buckets() -> impl Iterator<Item = f64> {
    const COUNT: u16 = 15;
    exponential_buckets(0.005, 4.0, COUNT)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DestinationLabel {
    destination: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    destination: String,
    result: &'static str,
}

type Histograms = Family<DestinationLabel, Histogram, fn() -> Histogram>;

/// What a relay does, and what waits.
#[derive(Debug)]
pub struct OutboxMetrics {
    known: RwLock<HashSet<Box<str>>>,
    attempts: Family<AttemptLabels, Counter>,
    attempt_duration: Histograms,
    age_at_arrival: Histograms,
    lease_expiries: Family<DestinationLabel, Counter>,
    unsent: Family<DestinationLabel, Gauge>,
    oldest: Family<DestinationLabel, Gauge>,
    age_p95: Family<DestinationLabel, Gauge>,
    dead: Family<DestinationLabel, Gauge>,
}

impl OutboxMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let attempt: fn() -> Histogram = || Histogram::new(attempt_buckets());
        let age: fn() -> Histogram = || Histogram::new(age_buckets());
        Self {
            known: RwLock::default(),
            attempts: add(registry, MetricName::OutboxAttempts, Family::default()),
            attempt_duration: add(
                registry,
                MetricName::OutboxAttemptDuration,
                Family::new_with_constructor(attempt),
            ),
            age_at_arrival: add(registry, MetricName::OutboxArrivalAge, Family::new_with_constructor(age)),
            lease_expiries: add(registry, MetricName::OutboxLeaseExpiries, Family::default()),
            unsent: add(registry, MetricName::OutboxUnsent, Family::default()),
            oldest: add(registry, MetricName::OutboxOldestUnsent, Family::default()),
            age_p95: add(registry, MetricName::OutboxUnsentAgeP95, Family::default()),
            dead: add(registry, MetricName::OutboxDeadLetters, Family::default()),
        }
    }

    /// Gives these destinations series of their own, at zero, so that a rate can be taken from the
    /// first scrape on.
    pub fn register<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            known.insert(name.into());
            let destination = || DestinationLabel { destination: name.to_owned() };
            for meaning in MEANINGS {
                let labels = AttemptLabels { destination: name.to_owned(), result: meaning.as_str() };
                drop(self.attempts.get_or_create_owned(&labels));
            }
            drop(self.attempt_duration.get_or_create_owned(&destination()));
            drop(self.age_at_arrival.get_or_create_owned(&destination()));
            drop(self.lease_expiries.get_or_create_owned(&destination()));
            for gauge in [&self.unsent, &self.oldest, &self.age_p95, &self.dead] {
                gauge.get_or_create_owned(&destination()).set(0);
            }
        }
    }

    /// An attempt has ended. `age`: how long ago the message was written.
    pub fn attempt(&self, destination: &str, meaning: Meaning, latency: Duration, age: Duration) {
        let label = self.label(destination);
        let labels = AttemptLabels { destination: label.destination.clone(), result: meaning.as_str() };
        self.attempts.get_or_create_owned(&labels).inc();
        self.attempt_duration.get_or_create_owned(&label).observe(latency.as_secs_f64());
        if meaning == Meaning::Accepted {
            self.age_at_arrival.get_or_create_owned(&label).observe(age.as_secs_f64());
        }
    }

    /// Messages whose lease ended without a word.
    pub fn leases_expired(&self, destination: &str, messages: u64) {
        if messages > 0 {
            self.lease_expiries.get_or_create_owned(&self.label(destination)).inc_by(messages);
        }
    }

    /// What waits now, of all destinations that have anything unsent.
    pub fn backlog(&self, backlog: &[Backlog]) {
        let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let unknown = DestinationLabel { destination: UNKNOWN_DESTINATION.to_owned() };
        let (mut unsent, mut dead, mut oldest, mut age_p95) = (0, 0, 0, 0);
        for waits in backlog.iter().filter(|waits| !known.contains(&*waits.destination)) {
            unsent += waits.unsent;
            dead += waits.dead;
            oldest = oldest.max(waits.oldest.as_secs());
            // Of several destinations that nobody knows: the worst.
            age_p95 = age_p95.max(waits.age_p95.as_secs());
        }
        self.unsent.get_or_create_owned(&unknown).set(gauge(unsent));
        self.dead.get_or_create_owned(&unknown).set(gauge(dead));
        self.oldest.get_or_create_owned(&unknown).set(gauge(oldest));
        self.age_p95.get_or_create_owned(&unknown).set(gauge(age_p95));
        for name in known.iter() {
            let label = DestinationLabel { destination: name.to_string() };
            let waits = backlog.iter().find(|waits| *waits.destination == **name);
            self.unsent.get_or_create_owned(&label).set(gauge(waits.map_or(0, |waits| waits.unsent)));
            self.dead.get_or_create_owned(&label).set(gauge(waits.map_or(0, |waits| waits.dead)));
            let oldest = waits.map_or(0, |waits| waits.oldest.as_secs());
            self.oldest.get_or_create_owned(&label).set(gauge(oldest));
            let age_p95 = waits.map_or(0, |waits| waits.age_p95.as_secs());
            self.age_p95.get_or_create_owned(&label).set(gauge(age_p95));
        }
    }

    fn label(&self, destination: &str) -> DestinationLabel {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let name = known.get(destination).map_or(UNKNOWN_DESTINATION, |name| &**name);
        DestinationLabel { destination: name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_that_is_not_configured_gets_no_series() {
        let mut registry = Registry::default();
        let metrics = OutboxMetrics::new(&mut registry);
        metrics.register(["crm"]);
        metrics.attempt("crm", Meaning::Accepted, Duration::ZERO, Duration::ZERO);
        let waits = |destination: &str| Backlog {
            destination: destination.to_owned(),
            unsent: 2,
            dead: 1,
            oldest: Duration::from_secs(9),
            age_p95: Duration::from_secs(7),
        };
        metrics.backlog(&[waits("crm"), waits("typo"), waits("tpyo")]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("it can be written");
        for line in [
            "hooklatch_outbox_attempts_total{destination=\"crm\",result=\"sent\"} 1\n",
            "hooklatch_outbox_attempts_total{destination=\"crm\",result=\"gone\"} 0\n",
            "hooklatch_outbox_unsent{destination=\"crm\"} 2\n",
            "hooklatch_outbox_unsent{destination=\"unknown\"} 4\n",
            "hooklatch_outbox_oldest_unsent_seconds{destination=\"unknown\"} 9\n",
            "hooklatch_outbox_unsent_age_p95_seconds{destination=\"crm\"} 7\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("typo"), "{text}");
        metrics.backlog(&[]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("it can be written");
        assert!(text.contains("hooklatch_outbox_unsent{destination=\"crm\"} 0\n"), "{text}");
    }
}
