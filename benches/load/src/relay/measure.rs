//! One measurement of a relay: a process started on an outbox, observed at the sink, ended, and held
//! against what it noted.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::outbox::Outbox;
use super::report::Measurement;
use super::{BACKLOG, Bench, Question, Relayer};
use crate::process::log_tail;
use crate::procfs;

/// How long the first message may take to come.
const FIRST_LIMIT: Duration = Duration::from_secs(30);
const WARM_UP: Duration = Duration::from_millis(500);
const POLL_EVERY: Duration = Duration::from_micros(200);
/// Messages of an idle measurement, each alone.
const IDLE_MESSAGES: usize = 20;
/// Most milliseconds between the arrival of one and the writing of the next.
const IDLE_PAUSE: std::ops::Range<u64> = 5..150;
/// Latencies are kept in microseconds, with three significant digits.
const SIGNIFICANT_DIGITS: u8 = 3;
const SLOWEST_MICROS: u64 = 60_000_000;
/// Messages that a relay may have sent and not noted when it is ended without warning.
const PEER_IN_FLIGHT: u64 = 1;

/// A relay with an outbox of its own.
#[derive(Debug)]
pub(super) struct Outing {
    pub(super) question: Question,
    pub(super) relayer: Relayer,
    /// Messages that wait for a dead destination.
    pub(super) dead_rows: u64,
    pub(super) outbox: Outbox,
    pub(super) url: String,
    pub(super) log: PathBuf,
}

impl Bench<'_> {
    pub(super) async fn measure_throughput(&self, outing: &Outing, round: usize) -> Result<Measurement> {
        outing.outbox.empty().await?;
        outing.outbox.fill("live", BACKLOG).await?;
        self.cluster.checkpoint().await?;
        self.sink.empty();
        let process = self.start(outing)?;
        self.wait_for(1, outing).await?;
        sleep(WARM_UP).await;
        let (count, relay, database) =
            (self.sink.count(), process.processor_time(), self.cluster.processor_time());
        let started = Instant::now();
        sleep(self.window).await;
        let took = started.elapsed();
        let arrived = (self.sink.count() - count) as u64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / arrived.max(1) as f64;
        let relay_micros = each(process.processor_time().saturating_sub(relay));
        let database_micros = each(self.cluster.processor_time().saturating_sub(database));
        let peak_memory_bytes = procfs::peak_memory(process.pid());
        // Told to end, hooklatch notes what is on its way; the others just end.
        drop(process);
        Ok(Measurement {
            question: outing.question,
            relayer: outing.relayer,
            dead_rows: outing.dead_rows,
            round,
            per_second: arrived as f64 / took.as_secs_f64(),
            p50_ms: None,
            p99_ms: None,
            relay_micros,
            database_micros,
            peak_memory_bytes,
            fault: self.fault(outing).await?,
        })
    }

    pub(super) async fn measure_idle(&self, outing: &Outing, round: usize) -> Result<Measurement> {
        outing.outbox.empty().await?;
        self.sink.empty();
        let process = self.start(outing)?;
        let mut latencies: Histogram<u64> = Histogram::new_with_bounds(1, SLOWEST_MICROS, SIGNIFICANT_DIGITS)?;
        // The first one waits until the relay is there.
        for number in 0..=IDLE_MESSAGES {
            let id = Uuid::from_u128(fastrand::u128(..));
            let committed = outing.outbox.write_one(id).await?;
            self.wait_for(number + 1, outing).await?;
            let arrival = self.sink.arrivals().pop();
            let arrival = arrival.filter(|arrival| arrival.id == id);
            ensure!(arrival.is_some(), "another message came than the one that was written");
            if let Some(arrival) = arrival.filter(|_| number > 0) {
                let latency = arrival.at.saturating_duration_since(committed);
                latencies.saturating_record(u64::try_from(latency.as_micros())?);
            }
            sleep(Duration::from_millis(fastrand::u64(IDLE_PAUSE))).await;
        }
        drop(process);
        let at = |quantile| Some(latencies.value_at_quantile(quantile) as f64 / 1000.0);
        Ok(Measurement {
            question: outing.question,
            relayer: outing.relayer,
            dead_rows: outing.dead_rows,
            round,
            per_second: 0.0,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            relay_micros: 0.0,
            database_micros: 0.0,
            peak_memory_bytes: 0,
            fault: self.fault(outing).await?,
        })
    }

    async fn wait_for(&self, arrivals: usize, outing: &Outing) -> Result<()> {
        let coming = async {
            while self.sink.count() < arrivals {
                sleep(POLL_EVERY).await;
            }
        };
        ensure!(
            timeout(FIRST_LIMIT, coming).await.is_ok(),
            "{} delivers nothing:\n{}",
            outing.relayer.as_str(),
            log_tail(&outing.log)
        );
        Ok(())
    }

    /// What a correct relay cannot have done.
    async fn fault(&self, outing: &Outing) -> Result<Option<String>> {
        let arrivals = self.sink.arrivals();
        let distinct = arrivals.iter().map(|arrival| arrival.id).collect::<HashSet<_>>().len() as u64;
        let sent = outing.outbox.sent().await?;
        let in_flight = match outing.relayer {
            Relayer::Hooklatch | Relayer::HooklatchSqlite => 0,
            Relayer::PlainRust | Relayer::Python => PEER_IN_FLIGHT,
        };
        if distinct != arrivals.len() as u64 {
            return Ok(Some(format!(
                "{} of {} messages came twice",
                arrivals.len() as u64 - distinct,
                distinct
            )));
        }
        if !(sent..=sent + in_flight).contains(&distinct) {
            return Ok(Some(format!("{distinct} messages came, {sent} are noted as sent")));
        }
        if outing.question != Question::Idle && distinct >= BACKLOG {
            return Ok(Some("the outbox ran dry: shorten --seconds".to_owned()));
        }
        Ok(None)
    }
}
