//! One measurement: a load on one target, what it cost, and whether its effects add up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Bench;
use super::fleet::{Fleet, Member};
use crate::generator::{self, Load, Tally, Workload};
use crate::pgbench;
use crate::plan::{Cell, Scenario};
use crate::process::ServerProcess;
use crate::procfs;
use crate::report::{Costs, Measurement};

/// After a load, work that a target does beside the way of a request may still go on.
const SETTLE: Duration = Duration::from_millis(100);

pub(super) struct Measurer<'a> {
    bench: &'a Bench<'a>,
    fleet: &'a Fleet<'a>,
}

impl<'a> Measurer<'a> {
    pub(super) fn new(bench: &'a Bench<'a>, fleet: &'a Fleet<'a>) -> Self {
        Self { bench, fleet }
    }

    /// `None`: the target is not there.
    pub(super) async fn measure(&self, cell: Cell, round: usize) -> Result<Option<Measurement>> {
        let Some(member) = self.fleet.get(cell.target) else { return Ok(None) };
        let starts_empty = !cell.scenario.is_replay() && cell.scenario != Scenario::Large;
        if starts_empty {
            member.store.empty().await?;
        }
        if let Some(cluster) = &self.bench.cluster {
            cluster.checkpoint().await?;
        }
        let measurement = match &member.server {
            Some(server) => self.load(cell, round, member, server).await,
            None => self.pgbench(cell, round, member).await,
        };
        measurement.map(Some).with_context(|| format!("{} at {}", cell.target.as_str(), cell.connections))
    }

    async fn load(
        &self,
        cell: Cell,
        round: usize,
        member: &Member,
        server: &ServerProcess,
    ) -> Result<Measurement> {
        let load = Load {
            address: server.address,
            template: self.fleet.template(server)?,
            workload: if cell.scenario.is_replay() {
                Workload::Replay(Arc::clone(&member.known))
            } else {
                Workload::New { poison_per_mille: cell.poison_per_mille }
            },
            connections: cell.connections,
            threads: self.bench.options.generator_threads,
            warm_up: self.bench.plan.warm_up,
            window: self.bench.plan.window,
        };
        let effects_before = member.store.effects().await?;
        procfs::reset_peak_memory(server.pid());
        let before = self.meters(Some(server)).await?;
        let tally = generator::generate(load).await?;
        tokio::time::sleep(SETTLE).await;
        let after = self.meters(Some(server)).await?;
        let effects_after = member.store.effects().await?;

        let answers = tally.answers().max(1);
        let new_effects = effects_after.zip(effects_before).map(|(after, before)| after - before);
        Ok(Measurement {
            cell,
            round,
            per_second: tally.per_second(),
            p50_ms: tally.quantile_ms(0.5),
            p99_ms: tally.quantile_ms(0.99),
            statuses: tally.statuses.clone(),
            unanswered: tally.unanswered,
            peak_memory_bytes: procfs::peak_memory(server.pid()),
            costs: before.until(&after, answers, tally.processor),
            fault: fault(cell, &tally, new_effects),
        })
    }

    async fn pgbench(&self, cell: Cell, round: usize, member: &Member) -> Result<Measurement> {
        let cluster = self.bench.cluster()?;
        let before = self.meters(None).await?;
        let script = self.bench.workshop.benches().join("peers/sql/pgbench_new.sql");
        let connection = pgbench::Connection {
            url: cluster.url_without_password(&member.database),
            password: cluster.password.clone(),
        };
        let seen =
            pgbench::run(&connection, &script, cell.connections, self.bench.plan.window, self.bench.scratch)
                .await?;
        let after = self.meters(None).await?;
        let effects = member.store.effects().await?;
        Ok(Measurement {
            cell,
            round,
            per_second: seen.per_second,
            p50_ms: seen.latencies.value_at_quantile(0.5) as f64 / 1000.0,
            p99_ms: seen.latencies.value_at_quantile(0.99) as f64 / 1000.0,
            statuses: [].into(),
            unanswered: 0,
            peak_memory_bytes: 0,
            costs: before.until(&after, seen.latencies.len().max(1), Duration::ZERO),
            fault: (effects != Some(seen.latencies.len()))
                .then(|| format!("{} transactions, {effects:?} orders", seen.latencies.len())),
        })
    }

    async fn meters(&self, server: Option<&ServerProcess>) -> Result<Meters> {
        let (log_bytes, database) = match &self.bench.cluster {
            Some(cluster) => (cluster.log_bytes().await?, cluster.processor_time()),
            None => (0, Duration::ZERO),
        };
        Ok(Meters {
            at: Instant::now(),
            server: server.map_or(Duration::ZERO, ServerProcess::processor_time),
            database,
            log_bytes,
        })
    }
}

/// Counters that only go up.
struct Meters {
    at: Instant,
    server: Duration,
    database: Duration,
    log_bytes: u64,
}

impl Meters {
    /// What each answer cost between here and there.
    fn until(&self, after: &Self, answers: u64, generator: Duration) -> Costs {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / answers as f64;
        let wall = after.at - self.at;
        Costs {
            server_micros: each(after.server.saturating_sub(self.server)),
            database_micros: each(after.database.saturating_sub(self.database)),
            generator_micros: each(generator),
            generator_busy: generator.as_secs_f64() / wall.as_secs_f64(),
            log_bytes: after.log_bytes.saturating_sub(self.log_bytes) as f64 / answers as f64,
        }
    }
}

/// What a correct target cannot have done. An unanswered request may or may not have taken effect.
fn fault(cell: Cell, tally: &Tally, new_effects: Option<u64>) -> Option<String> {
    if let Some(effects) = new_effects {
        let (least, most) = if cell.scenario.is_replay() {
            (0, 0)
        } else {
            (tally.acknowledged, tally.acknowledged + tally.unanswered)
        };
        if !(least..=most).contains(&effects) {
            return Some(format!(
                "{} acknowledged and {} unanswered, but {effects} effects",
                tally.acknowledged, tally.unanswered
            ));
        }
    }
    if cell.scenario.is_replay() && tally.replayed != tally.acknowledged {
        return Some(format!("{} of {} answers were replays", tally.replayed, tally.acknowledged));
    }
    let expected = |status: u16| (200..300).contains(&status) || (cell.poison_per_mille > 0 && status == 422);
    let refused: Vec<_> = tally.statuses.iter().filter(|(status, _)| !expected(**status)).collect();
    (!refused.is_empty() || tally.unanswered > 0)
        .then(|| format!("answers {refused:?}, {} unanswered", tally.unanswered))
}
