//! From start to stop, in order.
//!
//! Start: the listeners answer at once, `/readyz` says 503 until the schema is there. A database
//! that is away is waited for; a schema that does not fit ends the process with the way out.
//!
//! Run: on SIGHUP, and when a file has changed, configuration and certificates are read again
//! (`reload`).
//!
//! Stop (SIGTERM, SIGINT): `/readyz` says 503; the public listener closes and answers what it has
//! begun, and no more messages are taken from queues; the inbox settles what waits; the ledger writes what it holds; the private listener closes;
//! the relay finishes what is on its way and gives back the rest, and the pruner ends; the database is
//! closed. Each step has a time limit. A second signal
//! ends the process at once. A part that ends on its own is a crash: the rest stops in order and the
//! exit code says so.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{App, Awaited};
use crate::consumer;
use crate::http::{self, ServerSettings, ServerState, Socket};
use crate::outbox::relay::{self, Destinations};
use crate::pruner;
use crate::reload::{self, Certificates, Configuration, Reload};
use crate::store::{MigrationStatus, Store, StoreError, StoreErrorKind};

/// How long the inbox may take to settle what waits, once no request comes any more. Every delivery
/// has a deadline of its own; this is for a database that does not answer.
const DRAIN_LIMIT: Duration = Duration::from_secs(15);
/// How long the ledger, the pruner and the database may each take to end.
const STEP_LIMIT: Duration = Duration::from_secs(5);
/// Pauses between two attempts to reach the database at start: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(15);
/// Exit codes of a process that a second signal ended: 128 and the signal's number.
const EXIT_SIGINT: i32 = 130;
const EXIT_SIGTERM: i32 = 143;

/// Why a process did not run to an orderly end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot start the {0} listener")]
    Listener(&'static str, #[source] io::Error),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("the {0} ended unexpectedly; the log says why")]
    Crashed(&'static str),
}

/// Why the schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the database lacks {}: run `hooklatch migrate`, or set database.auto_migrate = true", names(.0))]
    Pending(Vec<String>),
    #[error("the database has {}, which this version does not know: run a newer hooklatch", names(.0))]
    Newer(Vec<String>),
    #[error("cannot use the database")]
    Store(#[from] StoreError),
}

impl SchemaError {
    fn may_pass(&self) -> bool {
        use StoreErrorKind::{Contention, LockTimeout, StatementTimeout, Unavailable};
        match self {
            Self::Store(error) => {
                matches!(error.kind, Unavailable | Contention | LockTimeout | StatementTimeout)
            }
            Self::Pending(_) | Self::Newer(_) => false,
        }
    }
}

/// The signals that end a process, and the one that makes it read its configuration again.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on these signals do not end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: Some(signal(SignalKind::hangup())?),
        })
    }

    /// Waits for the next one that ends the process and returns its name and the exit code of who does not wait any more.
    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", EXIT_SIGINT),
            _ = self.terminate.recv() => ("SIGTERM", EXIT_SIGTERM),
        }
    }
}

/// Where a running process listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub public: Option<Address>,
    pub admin: Address,
}

/// Where a listener is. Shown as a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub socket: SocketAddr,
    pub is_tls: bool,
}

impl Address {
    fn of(socket: &Socket) -> io::Result<Self> {
        Ok(Self { socket: socket.listener.local_addr()?, is_tls: socket.tls.is_some() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.socket)
    }
}

/// Runs the parts until a signal. `listening` is told where, once deliveries can be taken, or once
/// it is known that the database must be waited for.
///
/// # Errors
/// When a part cannot start or ends on its own, or the schema does not fit.
pub async fn run(app: App, listening: impl FnOnce(Addresses)) -> Result<(), RunError> {
    let mut signals = Signals::listen().map_err(RunError::Signals)?;
    let stop = CancellationToken::new();
    let hangup = signals.hangup.take();
    let mut parts = Parts::start(app, hangup, &stop)?;

    let outcome = tokio::select! {
        outcome = parts.work(&stop, listening) => outcome,
        (name, _) = signals.next() => {
            tracing::info!(signal.name = name, "stopping; a second signal stops at once");
            Ok(())
        }
    };
    if let Err(error) = &outcome {
        tracing::error!(error = error as &dyn std::error::Error, "stopping");
    }
    tokio::select! {
        () = parts.stop(&stop) => outcome,
        (name, code) = signals.next() => {
            tracing::warn!(signal.name = name, "stopped at once; senders repeat what was not answered");
            std::process::exit(code)
        }
    }
}

/// The running parts of a process.
struct Parts {
    state: Arc<ServerState>,
    services: http::Services,
    public: Option<ServerHandle>,
    admin: ServerHandle,
    grace: Duration,
    relay: Option<relay::Relay>,
    destinations: watch::Receiver<Destinations>,
    consumers: Option<consumer::Consumers>,
    /// Ends the taking of messages from queues, and waits for those that have been taken.
    intake: (CancellationToken, TaskTracker),
    /// How long the messages on their way may take.
    drain: Duration,
    pruner: Option<pruner::Pruner>,
    preparation: Preparation,
    addresses: Addresses,
    /// What runs beside. Each tells its name when it ends.
    tasks: JoinSet<&'static str>,
}

impl Parts {
    fn start(app: App, hangup: Option<Signal>, stop: &CancellationToken) -> Result<Self, RunError> {
        let (destinations, changes) = watch::channel(Destinations::default());
        let reload = reload_of(&app, destinations);
        let App {
            state,
            services,
            settings,
            public,
            admin,
            relay,
            consumers,
            pruner,
            awaited,
            auto_migrate,
            ..
        } = app;
        let mut tasks = JoinSet::new();
        if let Some(hangup) = hangup {
            let stop = stop.clone();
            tasks.spawn(async move {
                reload::run(reload, hangup, stop).await;
                "reload"
            });
        }
        watch_over(&services, &mut tasks, stop);
        let addresses = Addresses {
            public: public
                .as_ref()
                .map(Address::of)
                .transpose()
                .map_err(|error| RunError::Listener("public", error))?,
            admin: Address::of(&admin).map_err(|error| RunError::Listener("private", error))?,
        };
        let public = match public {
            Some(listener) => Some(serve_public(&state, listener, &settings, &mut tasks)?),
            None => None,
        };
        let server = http::admin_server(state.clone(), admin, &settings)
            .map_err(|error| RunError::Listener("private", error))?;
        let admin = server.handle();
        tasks.spawn(async move { ended("private listener", server.await) });
        let store = services.store.clone();
        Ok(Self {
            state,
            services,
            public,
            admin,
            grace: settings.shutdown_timeout,
            drain: relay.as_ref().map(|relay| relay.parts.options.drain).unwrap_or_default(),
            relay,
            destinations: changes,
            consumers,
            intake: (CancellationToken::new(), TaskTracker::new()),
            pruner,
            preparation: Preparation { store, awaited, auto_migrate },
            addresses,
            tasks,
        })
    }

    /// Returns only when something went wrong.
    async fn work(
        &mut self,
        stop: &CancellationToken,
        listening: impl FnOnce(Addresses),
    ) -> Result<(), RunError> {
        let first = self.preparation.attempt().await;
        if let Err(error) = &first
            && !error.may_pass()
        {
            return first.map_err(RunError::from);
        }
        listening(self.addresses);
        if let Err(error) = first {
            tokio::select! {
                ready = self.preparation.wait(error) => ready?,
                crashed = first_end(&mut self.tasks) => return Err(RunError::Crashed(crashed)),
            }
        }
        self.state.set_ready(true);
        tracing::info!(database.dialect = self.services.store.dialect().as_str(), "ready");
        if let Some(relay) = self.relay.take() {
            let (stop, destinations) = (stop.clone(), self.destinations.clone());
            self.tasks.spawn(async move {
                relay::follow(relay, destinations, stop).await;
                "relay"
            });
        }
        if let Some(consumers) = self.consumers.take() {
            let (stop, tracker) = &self.intake;
            let taking = consumer::run(consumers, stop.clone());
            self.tasks.spawn(tracker.track_future(async move {
                taking.await;
                "consumers of queues"
            }));
        }
        if let Some(pruner) = self.pruner.take() {
            let stop = stop.clone();
            self.tasks.spawn(async move {
                pruner::run(pruner, stop).await;
                "pruner"
            });
        }
        Err(RunError::Crashed(first_end(&mut self.tasks).await))
    }

    async fn stop(&mut self, stop: &CancellationToken) {
        self.state.set_ready(false);
        let (intake, taking) = &self.intake;
        intake.cancel();
        taking.close();
        if let Some(public) = &self.public {
            within("answer the requests that have begun", self.grace + STEP_LIMIT, public.stop(true)).await;
        }
        within("settle the messages taken from queues", self.grace + STEP_LIMIT, taking.wait()).await;
        within("settle the deliveries that wait", DRAIN_LIMIT, self.services.inbox.drain()).await;
        within("write the ledger", STEP_LIMIT, self.services.ledger.flush_and_stop()).await;
        stop.cancel();
        within("close the private listener", STEP_LIMIT, self.admin.stop(true)).await;
        let tasks = async { while self.tasks.join_next().await.is_some() {} };
        within("finish the messages on their way", self.drain + STEP_LIMIT, tasks).await;
        within("close the database", STEP_LIMIT, self.services.store.close()).await;
        tracing::info!("stopped");
    }
}

/// What the process reads again.
fn reload_of(app: &App, destinations: watch::Sender<Destinations>) -> Reload {
    let tls = |socket: Option<&Socket>| socket.and_then(|socket| Some(socket.tls.as_ref()?.listener.clone()));
    let listeners = [("http.tls", tls(app.public.as_ref())), ("admin.tls", tls(Some(&app.admin)))];
    let listeners = listeners.into_iter().filter_map(|(name, tls)| Some((name, tls?)));
    let services = &app.services;
    let parts = reload::Parts {
        state: app.state.clone(),
        store: services.store.clone(),
        metrics: services.metrics.clone(),
        destinations,
    };
    Reload {
        configuration: app
            .origin
            .as_ref()
            .map(|(origin, running)| Configuration::new(origin.clone(), running, parts)),
        certificates: Certificates::new(listeners, services.clock.clone(), services.metrics.clone()),
    }
}

/// A part that deliveries need and that is gone is a crash, though the listeners answer.
fn watch_over(services: &http::Services, tasks: &mut JoinSet<&'static str>, stop: &CancellationToken) {
    let (inbox, ledger, stop) = (services.inbox.clone(), services.ledger.clone(), stop.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = inbox.crashed() => "inbox's writer",
            () = ledger.crashed() => "ledger's writer",
            () = stop.cancelled() => "watch over the inbox",
        }
    });
}

fn serve_public(
    state: &Arc<ServerState>,
    socket: Socket,
    settings: &ServerSettings,
    tasks: &mut JoinSet<&'static str>,
) -> Result<ServerHandle, RunError> {
    let server = http::public_server(state.clone(), socket, settings)
        .map_err(|error| RunError::Listener("public", error))?;
    let handle = server.handle();
    tasks.spawn(async move { ended("public listener", server.await) });
    Ok(handle)
}

fn ended(part: &'static str, result: io::Result<()>) -> &'static str {
    if let Err(error) = result {
        tracing::error!(error = &error as &dyn std::error::Error, part, "a listener failed");
    }
    part
}

/// The name of the first part that ends. None should while the process works.
async fn first_end(tasks: &mut JoinSet<&'static str>) -> &'static str {
    match tasks.join_next().await {
        Some(Ok(part)) => part,
        Some(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a part of the process crashed");
            "process"
        }
        // There is always the private listener.
        None => "private listener",
    }
}

async fn within(doing: &str, limit: Duration, step: impl Future<Output = ()>) {
    if tokio::time::timeout(limit, step).await.is_err() {
        tracing::warn!(limit.seconds = limit.as_secs(), "gave up waiting to {doing}");
    }
}

/// Checks the schema; applies what is missing if that is wanted.
///
/// # Errors
/// When it does not fit, or the database does not answer.
pub async fn prepare_schema(store: &dyn Store, auto_migrate: bool) -> Result<(), SchemaError> {
    let migrations = store.migrations().await?;
    let unknown = named(&migrations, |migration| !migration.known);
    if !unknown.is_empty() {
        return Err(SchemaError::Newer(unknown));
    }
    let pending = named(&migrations, |migration| migration.applied_at.is_none());
    if pending.is_empty() {
        return Ok(());
    }
    if !auto_migrate {
        return Err(SchemaError::Pending(pending));
    }
    for name in store.migrate().await? {
        tracing::info!(migration.name = name, "migration applied");
    }
    Ok(())
}

/// What must be done before deliveries can be taken.
struct Preparation {
    store: Arc<dyn Store>,
    /// Set when the database could not be reached when the parts were built.
    awaited: Option<Awaited>,
    auto_migrate: bool,
}

impl Preparation {
    async fn attempt(&self) -> Result<(), SchemaError> {
        if let Some(awaited) = &self.awaited {
            awaited.attempt().await?;
        }
        prepare_schema(&*self.store, self.auto_migrate).await
    }

    /// Tries until the database answers. `error` is why the first attempt failed.
    async fn wait(&self, mut error: SchemaError) -> Result<(), SchemaError> {
        let mut pause = FIRST_PAUSE;
        loop {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                retry.seconds = pause.as_secs_f32(),
                "the database does not answer; deliveries get 503 until it does"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
            match self.attempt().await {
                Err(again) if again.may_pass() => error = again,
                result => return result,
            }
        }
    }
}

fn named(migrations: &[MigrationStatus], which: impl Fn(&MigrationStatus) -> bool) -> Vec<String> {
    migrations.iter().filter(|migration| which(migration)).map(|migration| migration.name.clone()).collect()
}

fn names(migrations: &[String]) -> String {
    match migrations {
        [one] => format!("the migration {one}"),
        many => format!("{} migrations ({})", many.len(), many.join(", ")),
    }
}
