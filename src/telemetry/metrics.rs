//! The metrics, as methods in the words of the domain; names and labels are a matter of this file.
//!
//! Recording neither allocates nor hashes labels: the counters of a source are looked up once by
//! its name and indexed by outcome. Labels are bounded: only registered sources get series of
//! their own, everything else is counted under [`UNKNOWN_SOURCE`].

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use crate::inbox::outcome::{EventOutcome, EventState, Outcome};
use crate::store::Prunable;
use crate::telemetry::consumer_metrics::ConsumerMetrics;
use crate::telemetry::metric_name::MetricName;
use crate::telemetry::outbox_metrics::OutboxMetrics;
use crate::telemetry::reload_metrics::ReloadMetrics;

/// The `source` label of deliveries that named no source of ours.
pub const UNKNOWN_SOURCE: &str = "unknown";

/// Secrets of one source that are told apart; the places behind share the last series.
const SECRETS_TOLD_APART: usize = 8;

/// What an event can meet, in the order of [`event_index`].
const EVENT_OUTCOMES: [EventOutcome; 7] = [
    EventOutcome::New(EventState::Applied),
    EventOutcome::New(EventState::Ignored),
    EventOutcome::New(EventState::Stale),
    EventOutcome::New(EventState::Rejected),
    EventOutcome::Replayed,
    EventOutcome::Duplicate,
    EventOutcome::Unavailable,
];

/// A quarter of a millisecond to 16 s, doubling.
fn duration_buckets() -> impl Iterator<Item = f64> {
    const SHORTEST_SECONDS: f64 = 0.000_25;
    const COUNT: u16 = 17;
    exponential_buckets(SHORTEST_SECONDS, 2.0, COUNT)
}

/// 1 to 1024 deliveries, doubling.
fn batch_buckets() -> impl Iterator<Item = f64> {
    const COUNT: u16 = 11;
    exponential_buckets(1.0, 2.0, COUNT)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    source: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SecretLabels {
    source: String,
    secret_index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabel {
    table: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

type HistogramFamily = Family<SourceLabel, Histogram, fn() -> Histogram>;

/// All metrics of one process. Cheap to record, shared by `Arc`.
pub struct Metrics {
    registry: Registry,
    started: Instant,
    sources: RwLock<HashMap<Box<str>, Arc<SourceSeries>>>,
    unknown: Arc<SourceSeries>,
    families: SourceFamilies,
    batch_size: Histogram,
    commit: Histogram,
    queue_depth: Gauge,
    inbox_rows: Gauge,
    ledger_dropped: Counter,
    pruned: [Counter; Prunable::ALL.len()],
    prune_last_success: Gauge,
    /// The queues'.
    pub consumers: ConsumerMetrics,
    /// The outbox's.
    pub outbox: OutboxMetrics,
    /// What was read again.
    pub reload: ReloadMetrics,
    resident_memory: Gauge,
    uptime: Gauge,
}

/// The families that have one series (or a handful) for each source.
#[derive(Clone)]
struct SourceFamilies {
    deliveries: Family<OutcomeLabels, Counter>,
    latency: HistogramFamily,
    events: Family<OutcomeLabels, Counter>,
    secrets: Family<SecretLabels, Counter>,
}

/// One source's series, found by name once for each recording.
struct SourceSeries {
    deliveries: [Counter; Outcome::ALL.len()],
    latency: Histogram,
    events: [Counter; EVENT_OUTCOMES.len()],
    /// Created when they first match: most sources have one secret.
    secrets: [OnceLock<Counter>; SECRETS_TOLD_APART],
}

impl Metrics {
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let families = SourceFamilies::register(&mut registry);
        let pruned = add(&mut registry, MetricName::PrunedRows, Family::<TableLabel, Counter>::default());
        let build = Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION") });
        registry.register(MetricName::BuildInfo.as_str(), MetricName::BuildInfo.help(), build);
        Self {
            started: Instant::now(),
            sources: RwLock::default(),
            unknown: Arc::new(families.series(UNKNOWN_SOURCE)),
            families,
            batch_size: add(&mut registry, MetricName::BatchSize, Histogram::new(batch_buckets())),
            commit: add(&mut registry, MetricName::CommitDuration, Histogram::new(duration_buckets())),
            queue_depth: add(&mut registry, MetricName::QueueDepth, Gauge::default()),
            inbox_rows: add(&mut registry, MetricName::InboxRows, Gauge::default()),
            ledger_dropped: add(&mut registry, MetricName::LedgerDropped, Counter::default()),
            pruned: Prunable::ALL
                .map(|what| pruned.get_or_create_owned(&TableLabel { table: what.as_str() })),
            prune_last_success: add(&mut registry, MetricName::PruneLastSuccess, Gauge::default()),
            outbox: OutboxMetrics::new(&mut registry),
            reload: ReloadMetrics::new(&mut registry),
            consumers: ConsumerMetrics::new(&mut registry),
            resident_memory: add(&mut registry, MetricName::ResidentMemory, Gauge::default()),
            uptime: add(&mut registry, MetricName::Uptime, Gauge::default()),
            registry,
        }
    }

    /// Gives these sources series of their own. A source that is not registered counts as unknown.
    pub fn register_sources<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if !sources.contains_key(name) {
                sources.insert(name.into(), Arc::new(self.families.series(name)));
            }
        }
    }

    /// A delivery was answered.
    pub fn delivery(&self, source: &str, outcome: Outcome, latency: Duration) {
        let series = self.series(source);
        series.deliveries[outcome as usize].inc();
        series.latency.observe(latency.as_secs_f64());
    }

    /// What a delivery of one event met.
    pub fn event(&self, source: &str, outcome: EventOutcome) {
        self.series(source).events[event_index(outcome)].inc();
    }

    /// A signature was verified with the secret at this place of the source's list.
    pub fn signature_matched(&self, source: &str, secret_index: usize) {
        let place = secret_index.min(SECRETS_TOLD_APART - 1);
        let counter = self.series(source).secrets[place]
            .get_or_init(|| {
                let secret_index = u32::try_from(place).unwrap_or(u32::MAX);
                self.families
                    .secrets
                    .get_or_create_owned(&SecretLabels { source: source.into(), secret_index })
            })
            .clone();
        counter.inc();
    }

    /// A batch was committed (or failed): how many deliveries, how long the commit took.
    pub fn batch(&self, deliveries: usize, commit: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "a batch is far smaller than 2^52")]
        self.batch_size.observe(deliveries as f64);
        self.commit.observe(commit.as_secs_f64());
    }

    /// Deliveries waiting for a writer.
    pub fn queue_depth(&self, waiting: usize) {
        self.queue_depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Ledger entries that were dropped because the ledger could not keep up.
    pub fn ledger_dropped(&self, entries: u64) {
        self.ledger_dropped.inc_by(entries);
    }

    /// Rows that retention deleted.
    pub fn pruned(&self, what: Prunable, rows: u64) {
        self.pruned[what as usize].inc_by(rows);
    }

    /// The pruner finished a round without an error, at this time (seconds since the epoch).
    pub fn prune_succeeded(&self, at_unix_seconds: i64) {
        self.prune_last_success.set(at_unix_seconds);
    }

    /// Rows of `processed_events`.
    pub fn inbox_rows(&self, rows: u64) {
        self.inbox_rows.set(i64::try_from(rows).unwrap_or(i64::MAX));
    }

    /// The exposition in the OpenMetrics text format, which Prometheus reads.
    #[must_use]
    pub fn encode(&self) -> String {
        self.uptime.set(i64::try_from(self.started.elapsed().as_secs()).unwrap_or(i64::MAX));
        if let Some(bytes) = resident_memory_bytes() {
            self.resident_memory.set(bytes);
        }
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &self.registry).is_err() {
            tracing::error!("the metrics could not be written");
        }
        text
    }

    fn series(&self, source: &str) -> Arc<SourceSeries> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sources.get(source).unwrap_or(&self.unknown))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl SourceFamilies {
    fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(duration_buckets());
        Self {
            deliveries: add(registry, MetricName::Deliveries, Family::default()),
            latency: add(registry, MetricName::DeliveryDuration, Family::new_with_constructor(histogram)),
            events: add(registry, MetricName::Events, Family::default()),
            secrets: add(registry, MetricName::SignatureMatched, Family::default()),
        }
    }

    /// A source's series, at zero, so that a rate can be taken from the first scrape on.
    fn series(&self, source: &str) -> SourceSeries {
        let labels = |outcome| OutcomeLabels { source: source.into(), outcome };
        SourceSeries {
            deliveries: Outcome::ALL.map(|o| self.deliveries.get_or_create_owned(&labels(o.as_str()))),
            latency: self.latency.get_or_create_owned(&SourceLabel { source: source.into() }),
            events: EVENT_OUTCOMES.map(|o| self.events.get_or_create_owned(&labels(o.as_str()))),
            secrets: Default::default(),
        }
    }
}

/// Registers a metric and hands back a handle to the same values.
pub(super) fn add<M: Metric + Clone>(registry: &mut Registry, name: MetricName, metric: M) -> M {
    registry.register(name.as_str(), name.help(), metric.clone());
    metric
}

fn event_index(outcome: EventOutcome) -> usize {
    match outcome {
        EventOutcome::New(EventState::Applied) => 0,
        EventOutcome::New(EventState::Ignored) => 1,
        EventOutcome::New(EventState::Stale) => 2,
        EventOutcome::New(EventState::Rejected) => 3,
        EventOutcome::Replayed => 4,
        EventOutcome::Duplicate => 5,
        EventOutcome::Unavailable => 6,
    }
}

/// Linux tells it in `/proc`; elsewhere it is not known.
fn resident_memory_bytes() -> Option<i64> {
    const KIBIBYTE: i64 = 1024;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(KIBIBYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
        for (place, outcome) in EVENT_OUTCOMES.into_iter().enumerate() {
            assert_eq!(event_index(outcome), place);
        }
        for (place, what) in Prunable::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, place);
        }
    }

    #[test]
    fn a_delivery_is_counted_under_its_source_and_outcome() {
        let metrics = Metrics::new();
        metrics.register_sources(["shop"]);
        metrics.delivery("shop", Outcome::Duplicate, Duration::from_millis(3));
        metrics.event("shop", EventOutcome::New(EventState::Stale));
        let text = metrics.encode();
        assert!(
            text.contains("hooklatch_deliveries_total{source=\"shop\",outcome=\"duplicate\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("hooklatch_deliveries_total{source=\"shop\",outcome=\"applied\"} 0\n"),
            "{text}"
        );
        assert!(text.contains("hooklatch_events_total{source=\"shop\",outcome=\"stale\"} 1\n"), "{text}");
        assert!(text.contains("hooklatch_delivery_duration_seconds_count{source=\"shop\"} 1\n"), "{text}");
    }

    #[test]
    fn a_name_that_is_no_source_gets_no_series() {
        let metrics = Metrics::new();
        metrics.delivery("../../etc/passwd", Outcome::Malformed, Duration::ZERO);
        let text = metrics.encode();
        assert!(!text.contains("passwd"), "{text}");
        assert!(
            text.contains("hooklatch_deliveries_total{source=\"unknown\",outcome=\"malformed\"} 1\n"),
            "{text}"
        );
    }

    #[test]
    fn secrets_beyond_the_last_series_share_it() {
        let metrics = Metrics::new();
        metrics.register_sources(["shop"]);
        metrics.signature_matched("shop", 0);
        metrics.signature_matched("shop", 7);
        metrics.signature_matched("shop", 4_000_000_000);
        let text = metrics.encode();
        assert!(
            text.contains("hooklatch_signature_matched_total{source=\"shop\",secret_index=\"0\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("hooklatch_signature_matched_total{source=\"shop\",secret_index=\"7\"} 2\n"),
            "{text}"
        );
    }

    #[test]
    fn every_name_of_the_catalogue_is_exposed() {
        let metrics = Metrics::new();
        // This one has no series until a secret has matched.
        metrics.signature_matched(UNKNOWN_SOURCE, 0);
        metrics.outbox.register(["crm"]);
        metrics.reload.certificate("http.tls", chrono::DateTime::UNIX_EPOCH);
        metrics.consumers.register(["queue"]);
        let text = metrics.encode();
        for name in MetricName::ALL {
            assert!(text.contains(&format!("# HELP {}", name.as_str())), "{} is missing", name.as_str());
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_registered_source_keeps_its_counts_when_registered_again() {
        let metrics = Metrics::new();
        metrics.register_sources(["shop"]);
        metrics.delivery("shop", Outcome::Applied, Duration::ZERO);
        metrics.register_sources(["shop", "crm"]);
        assert!(
            metrics.encode().contains("hooklatch_deliveries_total{source=\"shop\",outcome=\"applied\"} 1\n")
        );
    }
}
