//! What every request can reach: the sources, the inbox, the limits.
//!
//! Built once at start and shared by all workers. The sources can be replaced as a whole while
//! requests run: a request keeps the source it began with.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::Clock;
use crate::http::admin::guard::AdminToken;
use crate::http::body::BodyBudget;
use crate::http::health::StoreProbe;
use crate::inbox::Inbox;
use crate::ledger::Ledger;
use crate::secret::Secret;
use crate::source::Source;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

/// What a request may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a delivery.
    pub max_body_bytes: usize,
    /// Most bytes of bodies held at a time, over all connections.
    pub max_buffered_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const MEBIBYTE: usize = 1024 * 1024;
        Self {
            max_body_bytes: MEBIBYTE,
            max_buffered_bytes: 64 * MEBIBYTE,
            body_timeout: Duration::from_secs(15),
        }
    }
}

/// The parts of the program that requests are handed to.
#[derive(Clone)]
pub struct Services {
    pub store: Arc<dyn Store>,
    pub inbox: Inbox,
    pub ledger: Ledger,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// Where a delivery is settled to its end when its sender has gone.
    pub runtime: Handle,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

/// What every request can reach.
pub struct ServerState {
    pub(super) services: Services,
    pub(super) sources: SourceTable,
    pub(super) limits: Limits,
    pub(super) budget: Arc<BodyBudget>,
    admin_token: RwLock<Option<AdminToken>>,
    pub(super) probe: StoreProbe,
    ready: AtomicBool,
}

impl ServerState {
    /// Not ready yet: `/readyz` says no until [`set_ready`](Self::set_ready) says otherwise.
    #[must_use]
    pub fn new(
        services: Services,
        sources: Vec<Arc<Source>>,
        limits: Limits,
        admin_token: Option<&Secret>,
    ) -> Self {
        services.metrics.register_sources(sources.iter().map(|source| &*source.name));
        Self {
            budget: BodyBudget::new(limits.max_buffered_bytes),
            probe: StoreProbe::default(),
            admin_token: RwLock::new(admin_token.map(AdminToken::new)),
            sources: SourceTable::new(sources),
            ready: AtomicBool::new(false),
            services,
            limits,
        }
    }

    /// Replaces all sources. Requests that have begun go on with the old ones.
    pub fn replace_sources(&self, sources: Vec<Arc<Source>>) {
        self.services.metrics.register_sources(sources.iter().map(|source| &*source.name));
        self.sources.replace(sources);
    }

    /// The sources that new deliveries meet.
    #[must_use]
    pub fn sources(&self) -> Vec<Arc<Source>> {
        self.sources.all()
    }

    /// Requests to the admin server need this token from now on; `None`: they need none.
    pub fn replace_admin_token(&self, token: Option<&Secret>) {
        *self.admin_token.write().unwrap_or_else(PoisonError::into_inner) = token.map(AdminToken::new);
    }

    pub(super) fn admin_token(&self) -> Option<AdminToken> {
        self.admin_token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A source as it is configured now.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<Arc<Source>> {
        self.sources.find(name)
    }

    #[must_use]
    pub fn services(&self) -> &Services {
        &self.services
    }

    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether new deliveries should be sent here. Deliveries that come anyway are taken.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState")
            .field("sources", &self.sources)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The sources by name.
pub struct SourceTable {
    current: RwLock<Arc<HashMap<Arc<str>, Arc<Source>>>>,
}

impl SourceTable {
    #[must_use]
    pub fn new(sources: Vec<Arc<Source>>) -> Self {
        Self { current: RwLock::new(Arc::new(by_name(sources))) }
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Source>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All of them, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Source>> {
        let table = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let mut sources: Vec<_> = table.values().cloned().collect();
        sources.sort_by(|a, b| a.name.cmp(&b.name));
        sources
    }

    /// Every dedup scope, once.
    #[must_use]
    pub fn consumers(&self) -> Vec<String> {
        let mut consumers: Vec<_> = self.all().iter().map(|source| source.consumer.to_string()).collect();
        consumers.sort();
        consumers.dedup();
        consumers
    }

    fn replace(&self, sources: Vec<Arc<Source>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(by_name(sources));
    }
}

impl fmt::Debug for SourceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().iter().map(|source| Arc::clone(&source.name))).finish()
    }
}

fn by_name(sources: Vec<Arc<Source>>) -> HashMap<Arc<str>, Arc<Source>> {
    sources.into_iter().map(|source| (Arc::clone(&source.name), source)).collect()
}
