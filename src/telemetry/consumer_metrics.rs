//! The metrics of queues that events come from, by source.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::telemetry::metric_name::MetricName;
use crate::telemetry::metrics::add;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: String,
}

/// What is taken from queues.
#[derive(Debug)]
pub struct ConsumerMetrics {
    connected: Family<SourceLabel, Gauge>,
    unacknowledged: Family<SourceLabel, Gauge>,
}

impl ConsumerMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            connected: add(registry, MetricName::ConsumerConnected, Family::default()),
            unacknowledged: add(registry, MetricName::ConsumerUnacknowledged, Family::default()),
        }
    }

    /// Gives these sources series of their own, at zero.
    pub fn register<'a>(&self, sources: impl IntoIterator<Item = &'a str>) {
        for source in sources {
            for gauge in [&self.connected, &self.unacknowledged] {
                gauge.get_or_create_owned(&label(source)).set(0);
            }
        }
    }

    pub fn connected(&self, source: &str, is_connected: bool) {
        self.connected.get_or_create_owned(&label(source)).set(i64::from(is_connected));
    }

    /// A message was taken; it counts until the guard is dropped.
    pub fn take(&self, source: &str) -> TakenMessage {
        let gauge = self.unacknowledged.get_or_create_owned(&label(source));
        gauge.inc();
        TakenMessage(gauge)
    }
}

/// A message that was taken and is not acknowledged yet.
#[derive(Debug)]
pub struct TakenMessage(Gauge);

impl Drop for TakenMessage {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn label(source: &str) -> SourceLabel {
    SourceLabel { source: source.to_owned() }
}
