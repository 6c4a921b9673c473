//! The way out, measured: hooklatch's relay against the usual guide's, one transaction an event, in
//! Python and in plain Rust.
//!
//! Three questions, each in interleaved rounds: how many messages a second reach a local sink from a
//! full outbox; what a million messages for a dead destination change; how long a message takes from
//! its commit to its arrival when nothing else happens. After each measurement the arrivals are held
//! against what was noted as sent.

mod measure;
mod outbox;
pub(crate) mod plain;
mod report;
mod sink;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::generator::unix_now;
use crate::machine::Machine;
use crate::process::{ServerProcess, free_address, log_tail};
use crate::run::progress::Progress;
use crate::run::{self, provision};
use crate::store::Store;
use crate::store::cluster::{Cluster, URL_VARIABLE};
use crate::target::python_peer;
use measure::Outing;
use outbox::{Layout, Outbox};
use report::{Measurement, Results};
use sink::Sink;

/// Messages in the outbox when a relay starts: more than any sends in a window.
const BACKLOG: u64 = 60_000;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RelayOptions {
    /// Only these questions (throughput, dead, idle) and relays.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Rounds; the table shows their median.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measured seconds of a throughput.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Messages that wait for a dead destination.
    #[arg(long, default_value_t = 1_000_000)]
    dead_rows: u64,
    /// A hooklatch binary; without it, one is built in release mode.
    #[arg(long, value_name = "PATH")]
    hooklatch: Option<PathBuf>,
    /// Writes the tables into docs/performance.md.
    #[arg(long)]
    write_docs: bool,
    /// Most minutes a run may take.
    #[arg(long, default_value_t = 15)]
    time_limit: u64,
}

/// What is asked of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Question {
    Throughput,
    Dead,
    Idle,
}

impl Question {
    const ALL: [Self; 3] = [Self::Throughput, Self::Dead, Self::Idle];

    fn as_str(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Dead => "dead",
            Self::Idle => "idle",
        }
    }

    /// Who is asked, each with how many messages for a dead destination beside.
    fn relays(self, dead_rows: u64) -> Vec<(Relayer, u64)> {
        match self {
            Self::Throughput => Relayer::ALL.map(|relayer| (relayer, 0)).to_vec(),
            Self::Dead => vec![(Relayer::Hooklatch, 0), (Relayer::Hooklatch, dead_rows)],
            Self::Idle => vec![(Relayer::Hooklatch, 0), (Relayer::HooklatchSqlite, 0)],
        }
    }
}

/// Who relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Relayer {
    Hooklatch,
    PlainRust,
    Python,
    HooklatchSqlite,
}

impl Relayer {
    const ALL: [Self; 4] = [Self::Hooklatch, Self::PlainRust, Self::Python, Self::HooklatchSqlite];

    fn as_str(self) -> &'static str {
        match self {
            Self::Hooklatch => "hooklatch",
            Self::PlainRust => "plain-rust",
            Self::Python => "python",
            Self::HooklatchSqlite => "hooklatch-sqlite",
        }
    }
}

/// Runs what `options` ask for, under a throwaway PostgreSQL.
pub(crate) fn run(options: &RelayOptions) -> Result<ExitCode> {
    let root = run::repository()?;
    let (questions, relayers) = chosen(&options.only)?;
    let Ok(cluster_url) = std::env::var(URL_VARIABLE) else {
        return Err(run::start_again_with_postgres(&root)?);
    };
    run::within(options.time_limit, async {
        let scratch = tempfile::Builder::new().prefix("hooklatch-load.").tempdir()?;
        let cells: usize = questions.iter().map(|q| q.relays(0).len()).sum();
        let clock = Progress::start(cells * options.rounds);
        let mut machine = Machine::look(scratch.path())?;
        let cluster = Cluster::connect(&cluster_url).await?;
        machine.postgres = Some(cluster.version.clone());
        for doubt in machine.doubts(scratch.path()) {
            clock.say(&format!("WARNING: {doubt}"));
        }
        let bench = Bench {
            hooklatch: provision::hooklatch(options.hooklatch.as_deref(), &root, &clock).await?,
            python: provision::python_environment(&root, &clock).await.ok(),
            root: &root,
            scratch: scratch.path(),
            cluster,
            sink: Sink::start()?,
            window: Duration::try_from_secs_f64(options.seconds)?,
            clock,
        };
        let mut results = Results {
            measured_at: unix_now(),
            machine,
            rounds: options.rounds,
            window: bench.window,
            dead_rows: options.dead_rows,
            measurements: Vec::new(),
        };
        for question in questions {
            bench.ask(question, &relayers, options, &mut results.measurements).await?;
        }
        report::publish(&results, &root, options.write_docs)
    })
}

fn chosen(only: &[String]) -> Result<(Vec<Question>, Vec<Relayer>)> {
    let mut questions = Vec::new();
    let mut relayers = Vec::new();
    for name in only {
        let question = Question::ALL.into_iter().find(|question| question.as_str() == name);
        let relayer = Relayer::ALL.into_iter().find(|relayer| relayer.as_str() == name);
        if question.is_none() && relayer.is_none() {
            bail!(
                "--only: there is no `{name}`; questions: {}; relays: {}",
                Question::ALL.map(Question::as_str).join(", "),
                Relayer::ALL.map(Relayer::as_str).join(", "),
            );
        }
        questions.extend(question);
        relayers.extend(relayer);
    }
    if questions.is_empty() {
        questions.extend(Question::ALL);
    }
    if relayers.is_empty() {
        relayers.extend(Relayer::ALL);
    }
    Ok((questions, relayers))
}

/// What all of a run shares.
struct Bench<'a> {
    hooklatch: PathBuf,
    /// The Python peer's virtual environment.
    python: Option<PathBuf>,
    root: &'a Path,
    scratch: &'a Path,
    cluster: Cluster,
    sink: Sink,
    window: Duration,
    clock: Progress,
}

impl Bench<'_> {
    async fn ask(
        &self,
        question: Question,
        relayers: &[Relayer],
        options: &RelayOptions,
        measurements: &mut Vec<Measurement>,
    ) -> Result<()> {
        self.clock.say(&format!("── {}", question.as_str()));
        let mut outings = Vec::new();
        for (relayer, dead_rows) in question.relays(options.dead_rows) {
            if relayers.contains(&relayer) {
                outings.push(self.prepare(question, relayer, dead_rows).await?);
            }
        }
        for round in 0..options.rounds {
            // Everyone is first as often as last.
            let first = round % outings.len().max(1);
            for outing in outings[first..].iter().chain(&outings[..first]) {
                let measurement = match question {
                    Question::Idle => self.measure_idle(outing, round).await?,
                    Question::Throughput | Question::Dead => self.measure_throughput(outing, round).await?,
                };
                self.clock.step(&measurement.line(options.rounds));
                measurements.push(measurement);
            }
        }
        Ok(())
    }

    /// A database of its own for a relay, with its tables.
    async fn prepare(&self, question: Question, relayer: Relayer, dead_rows: u64) -> Result<Outing> {
        let beside = if dead_rows > 0 { "_beside_dead" } else { "" };
        let name = format!("{}_{}{beside}", question.as_str(), relayer.as_str()).replace('-', "_");
        let (store, url) = match relayer {
            Relayer::HooklatchSqlite => {
                let path = self.scratch.join(format!("{name}.db"));
                (Store::open_sqlite(&path).await?, format!("sqlite://{}", path.display()))
            }
            _ => (self.cluster.create(&name).await?, self.cluster.url(&name)),
        };
        let layout = match relayer {
            Relayer::Hooklatch | Relayer::HooklatchSqlite => {
                self.migrate(&url).await?;
                Layout::Hooklatch
            }
            Relayer::PlainRust | Relayer::Python => {
                store.define(&self.root.join("benches/peers/sql/outbox_postgres.sql")).await?;
                Layout::Guide
            }
        };
        let outbox = Outbox::new(store, layout);
        if dead_rows > 0 {
            self.clock.say(&format!("writing {dead_rows} messages for a dead destination"));
            outbox.fill("dead", dead_rows).await?;
        }
        Ok(Outing {
            question,
            relayer,
            dead_rows,
            outbox,
            url,
            log: self.scratch.join(format!("{name}.log")),
        })
    }

    async fn migrate(&self, url: &str) -> Result<()> {
        let log = self.scratch.join("migrate.log");
        let output = std::fs::File::create(&log)?;
        let mut migrate = tokio::process::Command::from(self.hooklatch("migrate", url)?);
        let status = migrate.stdout(output.try_clone()?).stderr(output).kill_on_drop(true).status().await?;
        ensure!(status.success(), "hooklatch migrate ended with {status}:\n{}", log_tail(&log));
        Ok(())
    }

    /// Starts the relay of an outing.
    fn start(&self, outing: &Outing) -> Result<ServerProcess> {
        let mut command = match outing.relayer {
            Relayer::Hooklatch | Relayer::HooklatchSqlite => self.hooklatch("relay", &outing.url)?,
            Relayer::PlainRust => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("plain-relay");
                command
            }
            Relayer::Python => {
                let environment = self.python.as_ref().context("there is no Python environment")?;
                let mut command = Command::new(environment.join("bin/python"));
                command.arg(python_peer(self.root).join("relay.py"));
                command
            }
        };
        command.env("BENCH_DATABASE_URL", &outing.url).env("BENCH_SINK_URL", self.sink.url());
        // Nobody asks it anything: that it works is seen at the sink.
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        ServerProcess::spawn(command, nowhere, &outing.log)
    }

    fn hooklatch(&self, subcommand: &str, url: &str) -> Result<Command> {
        let mut command = Command::new(&self.hooklatch);
        command
            .args([subcommand, "--config"])
            .arg(self.root.join("benches/relay.toml"))
            .env("BENCH_SINK_URL", self.sink.url())
            .env("HOOKLATCH__DATABASE__URL", url)
            .env("HOOKLATCH__ADMIN__LISTEN", free_address()?.to_string());
        Ok(command)
    }
}
