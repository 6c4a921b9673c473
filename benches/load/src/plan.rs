//! What is measured, how often and how long. Pure: starts nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::target::Target;

/// Connections of a full run, and of a quick one.
const CONNECTIONS: [usize; 5] = [1, 8, 64, 256, 1024];
const QUICK_CONNECTIONS: [usize; 3] = [1, 64, 256];
/// SQLite, which has one writer, is measured at fewer.
const SQLITE_CONNECTIONS: [usize; 3] = [1, 64, 256];
/// Where only the busy case is of interest.
const BUSY_CONNECTIONS: [usize; 2] = [64, 256];
/// One event in a hundred is refused by the handler.
const POISON_PER_MILLE: u32 = 10;
const LARGE_ROWS: u64 = 5_000_000;
const QUICK_LARGE_ROWS: u64 = 500_000;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// One short round with fewer connections: in three minutes, to see that everything runs.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these scenarios (new, replay, sqlite-new, sqlite-replay, poison, large) and targets.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Rounds; the table shows their median.
    #[arg(long)]
    rounds: Option<usize>,
    /// Measured seconds of each cell.
    #[arg(long)]
    seconds: Option<f64>,
    /// Connections, instead of the usual ones.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    connections: Vec<usize>,
    /// Rows that the scenario `large` loads into each table beforehand.
    #[arg(long)]
    rows: Option<u64>,
    /// Threads of the generator.
    #[arg(long, default_value_t = 1)]
    pub(crate) generator_threads: usize,
    /// A hooklatch binary; without it, one is built in release mode.
    #[arg(long, value_name = "PATH")]
    pub(crate) hooklatch: Option<PathBuf>,
    /// Writes the tables into docs/performance.md.
    #[arg(long)]
    pub(crate) write_docs: bool,
    /// Most minutes a run may take.
    #[arg(long, default_value_t = 30)]
    pub(crate) time_limit: u64,
}

/// What is asked of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Events nobody has seen; tables empty at the start of every cell.
    New,
    /// The same ten thousand events again and again.
    Replay,
    SqliteNew,
    SqliteReplay,
    /// New events, without and with some that the handler refuses.
    Poison,
    /// New events into tables that hold millions of rows.
    Large,
}

impl Scenario {
    pub(crate) const ALL: [Self; 6] =
        [Self::New, Self::Replay, Self::SqliteNew, Self::SqliteReplay, Self::Poison, Self::Large];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replay => "replay",
            Self::SqliteNew => "sqlite-new",
            Self::SqliteReplay => "sqlite-replay",
            Self::Poison => "poison",
            Self::Large => "large",
        }
    }

    pub(crate) fn is_replay(self) -> bool {
        matches!(self, Self::Replay | Self::SqliteReplay)
    }

    fn targets(self) -> &'static [Target] {
        match self {
            Self::New => &[
                Target::Hooklatch,
                Target::Plain16,
                Target::Plain32,
                Target::PlainAnswerFirst,
                Target::Python,
                Target::Pgbench,
                Target::HttpOnly,
            ],
            Self::Replay => &[Target::Hooklatch, Target::Plain16, Target::Plain32, Target::Python],
            Self::SqliteNew | Self::SqliteReplay => &[Target::HooklatchSqlite, Target::PlainSqlite],
            Self::Poison => &[Target::Hooklatch, Target::Plain32],
            Self::Large => &[Target::Hooklatch, Target::Plain32],
        }
    }
}

/// One thing to measure in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) scenario: Scenario,
    pub(crate) connections: usize,
    pub(crate) poison_per_mille: u32,
    pub(crate) target: Target,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) large_rows: u64,
    pub(crate) scenarios: Vec<Scenario>,
    targets: BTreeSet<Target>,
    connections: Vec<usize>,
    quick: bool,
}

impl Plan {
    pub(crate) fn new(options: &RunOptions) -> Result<Self> {
        let mut scenarios = Vec::new();
        let mut targets = BTreeSet::new();
        for name in &options.only {
            let scenario = Scenario::ALL.into_iter().find(|scenario| scenario.as_str() == name);
            let target = Target::ALL.into_iter().find(|target| target.as_str() == name);
            if scenario.is_none() && target.is_none() {
                bail!(
                    "--only: there is no scenario or target `{name}`; scenarios: {}; targets: {}",
                    Scenario::ALL.map(Scenario::as_str).join(", "),
                    Target::ALL.map(Target::as_str).join(", "),
                );
            }
            scenarios.extend(scenario);
            targets.extend(target);
        }
        if scenarios.is_empty() {
            scenarios.extend(Scenario::ALL);
        }
        if targets.is_empty() {
            targets.extend(Target::ALL);
        }
        let (rounds, warm_up, window, rows) =
            if options.quick { (1, 0.3, 1.0, QUICK_LARGE_ROWS) } else { (3, 0.5, 2.0, LARGE_ROWS) };
        let plan = Self {
            rounds: options.rounds.unwrap_or(rounds).max(1),
            warm_up: Duration::from_secs_f64(warm_up),
            window: Duration::try_from_secs_f64(options.seconds.unwrap_or(window))?,
            large_rows: options.rows.unwrap_or(rows),
            scenarios,
            targets,
            connections: options.connections.clone(),
            quick: options.quick,
        };
        if plan.window.is_zero() || plan.connections.contains(&0) {
            bail!("--seconds and --connections must be more than 0");
        }
        Ok(plan)
    }

    /// The targets a scenario needs.
    pub(crate) fn targets(&self, scenario: Scenario) -> Vec<Target> {
        scenario.targets().iter().copied().filter(|target| self.targets.contains(target)).collect()
    }

    /// The cells of a scenario, those that are compared with each other side by side.
    pub(crate) fn cells(&self, scenario: Scenario) -> Vec<Vec<Cell>> {
        let poison: &[u32] = if scenario == Scenario::Poison { &[0, POISON_PER_MILLE] } else { &[0] };
        self.connections(scenario)
            .into_iter()
            .map(|connections| {
                self.targets(scenario)
                    .into_iter()
                    .filter(|target| !self.connections.is_empty() || target.is_of_interest_at(connections))
                    .flat_map(|target| {
                        poison.iter().map(move |per_mille| Cell {
                            scenario,
                            connections,
                            poison_per_mille: *per_mille,
                            target,
                        })
                    })
                    .collect()
            })
            .collect()
    }

    /// Measurements of the whole run.
    pub(crate) fn total(&self) -> usize {
        let cells = self.scenarios.iter().flat_map(|scenario| self.cells(*scenario)).flatten().count();
        cells * self.rounds
    }

    pub(crate) fn needs(&self, wanted: impl Fn(Target) -> bool) -> bool {
        self.scenarios.iter().flat_map(|scenario| self.targets(*scenario)).any(wanted)
    }

    fn connections(&self, scenario: Scenario) -> Vec<usize> {
        if !self.connections.is_empty() {
            return self.connections.clone();
        }
        match scenario {
            Scenario::New | Scenario::Replay if self.quick => QUICK_CONNECTIONS.to_vec(),
            Scenario::New | Scenario::Replay => CONNECTIONS.to_vec(),
            Scenario::SqliteNew | Scenario::SqliteReplay => SQLITE_CONNECTIONS.to_vec(),
            Scenario::Poison | Scenario::Large => BUSY_CONNECTIONS.to_vec(),
        }
    }
}
