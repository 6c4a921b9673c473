//! What was read again in the running process, and what came of it.

use chrono::{DateTime, Utc};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::metric_name::MetricName;
use super::metrics::add;

/// The `what` label of the configuration; certificates are called by their listener's key.
pub const CONFIGURATION: &str = "configuration";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    what: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhatLabel {
    what: &'static str,
}

/// The metrics of reloads.
#[derive(Clone, Debug)]
pub struct ReloadMetrics {
    reloads: Family<ReloadLabels, Counter>,
    last_successful: Family<WhatLabel, Gauge>,
    certificate_end: Family<WhatLabel, Gauge>,
}

impl ReloadMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            reloads: add(registry, MetricName::Reloads, Family::default()),
            last_successful: add(registry, MetricName::LastReloadSuccessful, Family::default()),
            certificate_end: add(registry, MetricName::CertificateEnd, Family::default()),
        };
        metrics.know(CONFIGURATION);
        metrics
    }

    /// What was read is in use.
    pub fn applied(&self, what: &'static str) {
        self.note(what, "applied", 1);
    }

    /// What was read cannot be used; the old stays.
    pub fn refused(&self, what: &'static str) {
        self.note(what, "refused", 0);
    }

    /// The certificate of a listener in use, and when it ends.
    pub fn certificate(&self, what: &'static str, not_after: DateTime<Utc>) {
        self.know(what);
        self.certificate_end.get_or_create_owned(&WhatLabel { what }).set(not_after.timestamp());
    }

    /// What has not been read again yet is as it was read at start.
    fn know(&self, what: &'static str) {
        if self.last_successful.get(&WhatLabel { what }).is_none() {
            self.last_successful.get_or_create_owned(&WhatLabel { what }).set(1);
            for result in ["applied", "refused"] {
                self.reloads.get_or_create_owned(&ReloadLabels { what, result });
            }
        }
    }

    fn note(&self, what: &'static str, result: &'static str, successful: i64) {
        self.reloads.get_or_create_owned(&ReloadLabels { what, result }).inc();
        self.last_successful.get_or_create_owned(&WhatLabel { what }).set(successful);
    }
}
