//! The composition root: from a configuration to the running parts.
//!
//! The only place that picks the database by the scheme of its URL, and the only one that knows
//! every part. What happens to the parts over time is `lifecycle.rs`'s matter.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::{Config, Database, HttpSection, InboxSection, Retention, StatementCache, TlsSection};
use crate::consumer::Consumers;
use crate::http::{Limits, ServerSettings, ServerState, Services, Socket, Tls};
use crate::inbox::{Inbox, InboxOptions};
use crate::ledger::Ledger;
use crate::outbox::Hints;
use crate::outbox::destination::OpenError;
use crate::outbox::lane::LaneParts;
use crate::outbox::relay::{self, Relay};
use crate::pruner::Pruner;
use crate::reload::Origin;
use crate::source::Source;
use crate::store::awaited::AwaitedStore;
use crate::store::postgres::{self, PostgresOptions, PostgresStore};
use crate::store::sqlite::SqliteStore;
use crate::store::{BatchLimits, Dialect, Store, StoreError, StoreErrorKind};
use crate::telemetry::metrics::Metrics;
use crate::tls::{ClientCertificates, TlsError, TlsListener};

/// Ledger entries that wait to be written: a few seconds' worth at full load.
const LEDGER_CAPACITY: usize = 100_000;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Role {
    /// Takes deliveries.
    Receive,
    /// Delivers the messages of the outbox.
    Relay,
    /// Deletes what has expired.
    Prune,
}

/// Why a process cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("cannot open the database {url}")]
    Database {
        url: String,
        #[source]
        cause: StoreError,
    },
    #[error("cannot deliver to the destination {name}")]
    Destination {
        name: String,
        #[source]
        cause: OpenError,
    },
    #[error("{key}: the listener cannot end TLS")]
    Tls {
        key: &'static str,
        #[source]
        cause: TlsError,
    },
    #[error("cannot listen on {address} ({key}); stop what listens there, or choose another address")]
    Listen {
        key: &'static str,
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
}

/// The parts of one process, listening but not yet answering.
pub struct App {
    pub(crate) state: Arc<ServerState>,
    pub(crate) services: Services,
    pub(crate) settings: ServerSettings,
    /// `None` without [`Role::Receive`].
    pub(crate) public: Option<Socket>,
    pub(crate) admin: Socket,
    /// `None` without [`Role::Relay`].
    pub(crate) relay: Option<Relay>,
    /// `None` without [`Role::Receive`], or without a source that is a queue.
    pub(crate) consumers: Option<Consumers>,
    /// `None` without [`Role::Prune`].
    pub(crate) pruner: Option<Pruner>,
    /// Set when the database could not be reached yet.
    pub(crate) awaited: Option<Awaited>,
    pub(crate) auto_migrate: bool,
    /// Set when the configuration is read again as it changes.
    pub(crate) origin: Option<(Origin, Config)>,
}

/// A database that could not be reached yet, and the place its store will take.
pub(crate) struct Awaited {
    place: Arc<AwaitedStore>,
    database: Database,
    batches: BatchLimits,
    clock: Clock,
}

impl Awaited {
    /// Tries to reach the database.
    pub(crate) async fn attempt(&self) -> Result<(), StoreError> {
        if !self.place.has_arrived() {
            self.place.arrive(connect(&self.database, Some(self.batches), self.clock.clone()).await?);
        }
        Ok(())
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("state", &self.state).finish_non_exhaustive()
    }
}

impl App {
    /// Builds the parts. Listens, so that an address in use is found out at once.
    ///
    /// # Errors
    /// When an address is taken, or the database cannot be opened in a way that waiting would not
    /// cure.
    pub async fn build(
        config: &Config,
        sources: Vec<Arc<Source>>,
        roles: &[Role],
        clock: Clock,
    ) -> Result<Self, AppError> {
        let public = match roles.contains(&Role::Receive) {
            true => Some(Socket {
                tls: tls("http.tls", config.http.tls.as_ref(), ClientCertificates::Offered, &clock)?,
                listener: listen("http.listen", config.http.listen)?,
            }),
            false => None,
        };
        let admin = Socket {
            tls: tls("admin.tls", config.admin.tls.as_ref(), ClientCertificates::Demanded, &clock)?,
            listener: listen("admin.listen", config.admin.listen)?,
        };
        let (store, awaited) = open_or_await(&config.database, batch_limits(&config.inbox), &clock).await?;
        let metrics = Arc::new(Metrics::new());
        let relay = match roles.contains(&Role::Relay) {
            true => Some(relay_of(config, &store, &clock, &metrics)?),
            false => None,
        };
        let hints = relay.as_ref().map(|relay| relay.hints.clone()).unwrap_or_default();
        let services = Services {
            inbox: start_inbox(&store, config, &clock, &metrics, hints),
            ledger: Ledger::start(store.clone(), LEDGER_CAPACITY, metrics.clone()),
            store: store.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        let limits = limits(&config.http);
        let state =
            Arc::new(ServerState::new(services.clone(), sources, limits, config.admin.token.as_ref()));
        let queues: Vec<_> = config.queues().cloned().collect();
        let consumers = (roles.contains(&Role::Receive) && !queues.is_empty())
            .then(|| Consumers::new(queues, state.clone(), config.http.shutdown_grace));
        let pruner = roles.contains(&Role::Prune).then(|| Pruner {
            store,
            retention: config.retention.clone(),
            metrics,
            clock,
        });
        let settings = settings(&config.http);
        let auto_migrate = config.database.auto_migrate;
        Ok(Self {
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
            origin: None,
        })
    }

    /// From now on the configuration that it was built from is read again as it changes. Not for a
    /// program that adds to the sources it reads.
    #[must_use]
    pub fn reloading(mut self, origin: Origin, running: Config) -> Self {
        self.origin = Some((origin, running));
        self
    }
}

/// Opens the database that the URL names.
///
/// # Errors
/// When it cannot be opened. The message does not show the password.
pub async fn open_store(database: &Database, clock: Clock) -> Result<Arc<dyn Store>, AppError> {
    connect(database, None, clock)
        .await
        .map_err(|cause| AppError::Database { url: database.url.to_string(), cause })
}

/// Whether [`open_store`] would make the database's file, and could. Makes nothing; what is in the way is said
/// by who opens it.
#[must_use]
pub fn would_make_database(database: &Database) -> bool {
    let url = &database.url;
    url.dialect() == Dialect::Sqlite && SqliteStore::is_to_be_made(url.expose()).unwrap_or(false)
}

/// As [`open_store`]; a database elsewhere that does not answer now is waited for.
async fn open_or_await(
    database: &Database,
    batches: BatchLimits,
    clock: &Clock,
) -> Result<(Arc<dyn Store>, Option<Awaited>), AppError> {
    let dialect = database.url.dialect();
    match connect(database, Some(batches), clock.clone()).await {
        Ok(store) => Ok((store, None)),
        Err(cause) if cause.kind == StoreErrorKind::Unavailable && dialect == Dialect::Postgres => {
            let place = Arc::new(AwaitedStore::new(dialect));
            let (database, clock) = (database.clone(), clock.clone());
            let awaited = Awaited { place: place.clone(), database, batches, clock };
            Ok((place, Some(awaited)))
        }
        Err(cause) => Err(AppError::Database { url: database.url.to_string(), cause }),
    }
}

/// `batches`: the limits of the batches that this process will settle.
async fn connect(
    database: &Database,
    batches: Option<BatchLimits>,
    clock: Clock,
) -> Result<Arc<dyn Store>, StoreError> {
    let url = database.url.expose();
    match database.url.dialect() {
        Dialect::Sqlite => Ok(Arc::new(SqliteStore::connect(url, clock).await?)),
        Dialect::Postgres => {
            let options = PostgresOptions {
                url: url.to_owned(),
                max_connections: database.max_connections,
                acquire_timeout: database.acquire_timeout,
                statement_cache: match database.statement_cache {
                    StatementCache::Auto => postgres::StatementCache::Auto,
                    StatementCache::On => postgres::StatementCache::On,
                    StatementCache::Off => postgres::StatementCache::Off,
                },
                batch_limits: batches,
            };
            Ok(Arc::new(PostgresStore::connect(options).await?))
        }
    }
}

/// Starts the inbox over an open store, as `serve` does; for `events retry` too.
pub fn start_inbox(
    store: &Arc<dyn Store>,
    config: &Config,
    clock: &Clock,
    metrics: &Arc<Metrics>,
    hints: Hints,
) -> Inbox {
    Inbox::start(
        store.clone(),
        inbox_options(&config.inbox, &config.retention, hints),
        clock.clone(),
        metrics.clone(),
    )
}

fn batch_limits(inbox: &InboxSection) -> BatchLimits {
    BatchLimits { lock_wait: inbox.inflight_wait, statement: inbox.handler_timeout }
}

fn inbox_options(inbox: &InboxSection, retention: &Retention, hints: Hints) -> InboxOptions {
    InboxOptions {
        writers: inbox.writers,
        max_batch: inbox.max_batch,
        queue: inbox.queue,
        inflight_wait: inbox.inflight_wait,
        deadline: inbox.deadline,
        handler_timeout: inbox.handler_timeout,
        windows: retention.windows(),
        hints,
    }
}

/// The relay over an open store, with everything it delivers to.
fn relay_of(
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &Clock,
    metrics: &Arc<Metrics>,
) -> Result<Relay, AppError> {
    // Before anybody can scrape them.
    metrics.outbox.register(config.destinations.iter().map(|spec| &*spec.name));
    Ok(Relay {
        parts: LaneParts {
            store: store.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            options: config.relay.options(),
        },
        destinations: relay::open_all(&config.destinations)
            .map_err(|(name, cause)| AppError::Destination { name: name.to_string(), cause })?,
        hints: Hints::new(config.destinations.iter().map(|spec| spec.name.clone())),
        listen: config.relay.listen,
    })
}

fn limits(http: &HttpSection) -> Limits {
    Limits {
        max_body_bytes: http.max_body_bytes,
        max_buffered_bytes: http.max_buffered_bytes,
        body_timeout: http.body_timeout,
    }
}

fn settings(http: &HttpSection) -> ServerSettings {
    ServerSettings {
        workers: http.workers,
        max_connections: http.max_connections,
        keep_alive: http.keep_alive,
        head_timeout: http.head_timeout,
        shutdown_timeout: http.shutdown_grace,
        ..ServerSettings::default()
    }
}

fn tls(
    key: &'static str,
    section: Option<&TlsSection>,
    clients: ClientCertificates,
    clock: &Clock,
) -> Result<Option<Tls>, AppError> {
    let Some(section) = section else { return Ok(None) };
    let listener =
        TlsListener::open(section.files(), clients).map_err(|cause| AppError::Tls { key, cause })?;
    let freshness = listener.freshness(clock.now());
    if !freshness.is_valid() {
        tracing::error!(config.key = key, "{freshness}; clients will refuse it");
    }
    Ok(Some(Tls { listener, handshake_timeout: section.handshake_timeout }))
}

fn listen(key: &'static str, address: SocketAddr) -> Result<std::net::TcpListener, AppError> {
    crate::http::bind(address).map_err(|cause| AppError::Listen { key, address, cause })
}
