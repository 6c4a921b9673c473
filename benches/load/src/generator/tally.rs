//! What one load saw: latencies inside the measured window, answers by status over the whole load.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

/// Latencies are kept in microseconds, with three significant digits.
const SIGNIFICANT_DIGITS: u8 = 3;
const SLOWEST_MICROS: u64 = 60_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Tally {
    latencies: Histogram<u64>,
    /// Answers of the whole load, the warm-up and the tail too.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Answers with a 2xx status, of the whole load.
    pub(crate) acknowledged: u64,
    /// Of those, the ones that said they were replayed.
    pub(crate) replayed: u64,
    /// Requests that got no answer: broken connections and time-outs. They may have taken effect.
    pub(crate) unanswered: u64,
    /// Answers with another status, inside the window.
    pub(crate) refused: u64,
    pub(crate) window: Duration,
    /// Processor time of the generator over the whole load.
    pub(crate) processor: Duration,
}

impl Tally {
    pub(crate) fn new(window: Duration) -> Result<Self> {
        Ok(Self {
            latencies: Histogram::new_with_bounds(1, SLOWEST_MICROS, SIGNIFICANT_DIGITS)?,
            statuses: BTreeMap::new(),
            acknowledged: 0,
            replayed: 0,
            unanswered: 0,
            refused: 0,
            window,
            processor: Duration::ZERO,
        })
    }

    pub(crate) fn answered(&mut self, status: u16, replayed: bool) {
        *self.statuses.entry(status).or_default() += 1;
        if is_success(status) {
            self.acknowledged += 1;
            self.replayed += u64::from(replayed);
        }
    }

    /// Counts an answer that fell into the measured window. Only successes have a latency that
    /// means something.
    pub(crate) fn measured(&mut self, status: u16, latency: Duration) {
        if is_success(status) {
            self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        } else {
            self.refused += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) -> Result<()> {
        self.latencies.add(&other.latencies)?;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.acknowledged += other.acknowledged;
        self.replayed += other.replayed;
        self.unanswered += other.unanswered;
        self.refused += other.refused;
        self.processor += other.processor;
        Ok(())
    }

    /// Answers of any status a second, inside the window.
    pub(crate) fn per_second(&self) -> f64 {
        (self.latencies.len() + self.refused) as f64 / self.window.as_secs_f64()
    }

    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// Answers of any status, over the whole load.
    pub(crate) fn answers(&self) -> u64 {
        self.statuses.values().sum()
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}
