//! The targets of one scenario, alive side by side, each with a database of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Bench, serves_http, smoke};
use crate::generator::{self, EventId, Load, RequestTemplate, Workload};
use crate::plan::Scenario;
use crate::process::{ServerProcess, log_tail};
use crate::store::{self, Store};
use crate::target::{Database, Launch, Target};

/// Events that replays are made of.
const REPLAY_EVENTS: usize = 10_000;
const FILL_CONNECTIONS: usize = 64;
const FILL_LIMIT: Duration = Duration::from_secs(60);
/// How long `migrate` may take.
const BEFORE_LIMIT: Duration = Duration::from_secs(60);

/// A target that is up.
pub(super) struct Member {
    /// `None`: pgbench, which is started for each measurement.
    pub(super) server: Option<ServerProcess>,
    pub(super) store: Store,
    /// Its database's name.
    pub(super) database: String,
    /// Effects that were there before any cell.
    pub(super) preloaded: u64,
    /// For replays: what it has already applied.
    pub(super) known: Arc<[EventId]>,
}

pub(super) struct Fleet<'a> {
    bench: &'a Bench<'a>,
    scenario: Scenario,
    members: BTreeMap<Target, Member>,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(bench: &'a Bench<'a>, scenario: Scenario) -> Self {
        Self { bench, scenario, members: BTreeMap::new() }
    }

    pub(super) fn get(&self, target: Target) -> Option<&Member> {
        self.members.get(&target)
    }

    /// Starts a target on a fresh database, checks that it does the job, and brings its tables to
    /// where the scenario begins.
    pub(super) async fn add(&mut self, target: Target) -> Result<()> {
        let name = format!("{}_{}", self.scenario.as_str(), target.as_str()).replace('-', "_");
        let (store, url) = self.database(target, &name).await?;
        let mut member = Member { server: None, store, database: name, preloaded: 0, known: Arc::from([]) };
        if serves_http(target) {
            let launch = self.bench.workshop.launch(target, &url)?;
            let server = self.start(target, launch).await?;
            smoke::check(&self.template(&server)?, server.address, &member.store)
                .await
                .context("it does not do the job")?;
            member.server = Some(server);
        }
        member.store.empty().await?;
        if self.scenario == Scenario::Large {
            let rows = self.bench.plan.large_rows;
            store::preload(&member.store, rows, |table| {
                self.bench.clock.say(&format!("{}: loading {rows} rows into {table}", target.as_str()));
            })
            .await?;
            member.preloaded = rows;
        }
        if self.scenario.is_replay() {
            member.known = self.fill(&member).await?;
            member.store.analyze().await?;
        }
        self.members.insert(target, member);
        Ok(())
    }

    pub(super) fn template(&self, server: &ServerProcess) -> Result<RequestTemplate> {
        let secret = &self.bench.workshop.secret;
        RequestTemplate::for_source(&server.address.to_string(), "/hooks/shop", secret)
    }

    /// A fresh database with the tables that the target does not make by itself.
    async fn database(&self, target: Target, name: &str) -> Result<(Store, String)> {
        let sql = self.bench.workshop.benches().join("peers/sql");
        let kind = target.database();
        let (store, url) = match kind {
            Database::PostgresOwn | Database::PostgresPeer => {
                let cluster = self.bench.cluster()?;
                (cluster.create(name).await?, cluster.url(name))
            }
            Database::SqliteOwn | Database::SqlitePeer => {
                let path = self.bench.scratch.join(format!("{name}.db"));
                (Store::open_sqlite(&path).await?, path.display().to_string())
            }
            Database::None => (Store::None, String::new()),
        };
        match kind {
            Database::PostgresOwn | Database::PostgresPeer => {
                store.define(&sql.join("orders_postgres.sql")).await?;
            }
            Database::SqliteOwn | Database::SqlitePeer => {
                store.define(&sql.join("orders_sqlite.sql")).await?;
            }
            Database::None => {}
        }
        match kind {
            Database::PostgresPeer => store.define(&sql.join("postgres.sql")).await?,
            Database::SqlitePeer => store.define(&sql.join("sqlite.sql")).await?,
            Database::PostgresOwn | Database::SqliteOwn | Database::None => {}
        }
        Ok((store, url))
    }

    async fn start(&self, target: Target, launch: Launch) -> Result<ServerProcess> {
        let log = self.bench.scratch.join(format!("{}.log", target.as_str()));
        if let Some(before) = launch.before {
            let output = std::fs::File::create(&log)?;
            let mut before = tokio::process::Command::from(before);
            before.stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
            let status = tokio::time::timeout(BEFORE_LIMIT, before.status()).await??;
            ensure!(status.success(), "its preparation ended with {status}:\n{}", log_tail(&log));
        }
        ServerProcess::start(launch.command, launch.address, &log).await
    }

    /// Delivers the events that will be replayed, once.
    async fn fill(&self, member: &Member) -> Result<Arc<[EventId]>> {
        let server = member.server.as_ref().context("only servers replay")?;
        let mut rng = fastrand::Rng::new();
        let events: Arc<[EventId]> = (0..REPLAY_EVENTS).map(|_| EventId::random(&mut rng)).collect();
        let tally = generator::generate(Load {
            address: server.address,
            template: self.template(server)?,
            workload: Workload::Once(Arc::clone(&events)),
            connections: FILL_CONNECTIONS,
            threads: 1,
            warm_up: Duration::ZERO,
            window: FILL_LIMIT,
        })
        .await?;
        ensure!(
            tally.acknowledged == REPLAY_EVENTS as u64,
            "only {} of {REPLAY_EVENTS} events were taken: {:?}",
            tally.acknowledged,
            tally.statuses
        );
        Ok(events)
    }
}
