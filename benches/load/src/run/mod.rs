//! A run: brings what it needs, measures scenario by scenario in interleaved rounds, reports, ends
//! everything it started, also when it is interrupted.

mod cell;
mod fleet;
pub(crate) mod progress;
pub(crate) mod provision;
mod smoke;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::generator::unix_now;
use crate::machine::{self, Machine};
use crate::plan::{Plan, RunOptions, Scenario};
use crate::report::{self, Results};
use crate::store::cluster::{Cluster, URL_VARIABLE};
use crate::target::{Target, Workshop};
use cell::Measurer;
use fleet::Fleet;
use progress::Progress;

const INTERRUPTED: u8 = 130;

/// Runs everything that `options` ask for. Restarts itself under a throwaway PostgreSQL where the
/// plan needs one.
pub(crate) fn run(options: &RunOptions) -> Result<ExitCode> {
    let plan = Plan::new(options)?;
    let root = repository()?;
    let cluster_url = std::env::var(URL_VARIABLE).ok();
    if plan.needs(Target::uses_postgres) && cluster_url.is_none() {
        return Err(start_again_with_postgres(&root)?);
    }
    machine::allow_many_sockets()?;
    within(options.time_limit, measure_all(options, &plan, root, cluster_url))
}

/// Replaces this process by itself under a throwaway PostgreSQL; returns only what went wrong.
pub(crate) fn start_again_with_postgres(root: &Path) -> Result<anyhow::Error> {
    let error = Command::new(root.join("scripts/postgres"))
        .args(["run", "--durable", "--"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .exec();
    Ok(anyhow::Error::new(error).context("cannot start scripts/postgres"))
}

/// Runs to the end, for so many minutes at most, or until it is interrupted.
pub(crate) fn within(minutes: u64, work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (mut interrupt, mut end) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        // Dropping the work ends its servers.
        tokio::select! {
            outcome = Box::pin(work) => outcome,
            () = tokio::time::sleep(Duration::from_secs(minutes * 60)) => bail!("not done after {minutes} minutes"),
            _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
            _ = end.recv() => Ok(ExitCode::from(INTERRUPTED)),
        }
    });
    runtime.shutdown_background();
    outcome
}

async fn measure_all(
    options: &RunOptions,
    plan: &Plan,
    root: PathBuf,
    cluster_url: Option<String>,
) -> Result<ExitCode> {
    let clock = Progress::start(plan.total());
    let scratch = tempfile::Builder::new().prefix("hooklatch-load.").tempdir()?;
    let mut machine = Machine::look(scratch.path())?;
    let workshop = provision::provision(options, plan, root, &clock).await?;
    let cluster = match cluster_url {
        Some(url) => Some(Cluster::connect(&url).await?),
        None => None,
    };
    machine.postgres = cluster.as_ref().map(|cluster| cluster.version.clone());
    for doubt in machine.doubts(scratch.path()) {
        clock.say(&format!("WARNING: {doubt}"));
    }
    clock.say(&format!("{} measurements, a durable write takes {} µs", plan.total(), machine.sync_micros));

    let bench = Bench { workshop, cluster, scratch: scratch.path(), plan, options, clock };
    let mut results = Results {
        measured_at: unix_now(),
        machine,
        plan: plan.clone(),
        measurements: Vec::new(),
        left_out: Vec::new(),
    };
    for scenario in &plan.scenarios {
        bench.measure(*scenario, &mut results).await?;
    }
    report::publish(&results, &bench.workshop.root, options.write_docs)
}

/// What all of a run shares.
struct Bench<'a> {
    workshop: Workshop,
    cluster: Option<Cluster>,
    scratch: &'a Path,
    plan: &'a Plan,
    options: &'a RunOptions,
    clock: Progress,
}

impl Bench<'_> {
    /// One scenario: starts its targets, checks that they do the job, measures them in turns.
    async fn measure(&self, scenario: Scenario, results: &mut Results) -> Result<()> {
        self.clock.say(&format!("── {}", scenario.as_str()));
        let mut fleet = Fleet::new(self, scenario);
        for target in self.plan.targets(scenario) {
            if let Err(error) = fleet.add(target).await {
                self.clock.say(&format!("{} is left out: {error:#}", target.as_str()));
                results.left_out.push(format!("{} in {}", target.as_str(), scenario.as_str()));
            }
        }
        let measurer = Measurer::new(self, &fleet);
        for cells in self.plan.cells(scenario) {
            for round in 0..self.plan.rounds {
                // Everyone is first as often as last.
                let mut order = cells.clone();
                order.rotate_left(round % cells.len().max(1));
                for cell in order {
                    match measurer.measure(cell, round).await {
                        Ok(Some(measurement)) => {
                            self.clock.step(&measurement.line(self.plan.rounds));
                            results.measurements.push(measurement);
                        }
                        Ok(None) => self.clock.skip(),
                        // One round less in the median; a target that is gone says so every time.
                        Err(error) => self.clock.step(&format!("not measured: {error:#}")),
                    }
                }
            }
        }
        Ok(())
    }

    fn cluster(&self) -> Result<&Cluster> {
        self.cluster.as_ref().context("this needs PostgreSQL")
    }
}

/// The repository this harness belongs to: `benches/load/../..`.
pub(crate) fn repository() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().with_context(|| format!("the sources are no longer at {}", root.display()))
}

/// Whether a target is measured over HTTP.
fn serves_http(target: Target) -> bool {
    target != Target::Pgbench
}
