//! The two servers in this process, over real sockets and a real SQLite file: what cannot be seen
//! from outside, or needs a handler of Rust code to provoke.

mod admin;
mod delivery;
mod health;
mod limits;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hooklatch::clock::Clock;
use hooklatch::envelope::EnvelopeRules;
use hooklatch::event::{Event, EventKey};
use hooklatch::handler::{
    Handler, HandlerBinding, HandlerConnection, HandlerError, HandlerReply, Step, TypeFilter,
};
use hooklatch::http::{Limits, ServerSettings, ServerState, Services, admin_server, bind, public_server};
use hooklatch::inbox::{Inbox, InboxOptions};
use hooklatch::ledger::Ledger;
use hooklatch::secret::Secret;
use hooklatch::signature::{Verifier, VerifyConfig};
use hooklatch::source::{KeyPolicy, ReplayErrors, Source};
use hooklatch::store::sqlite::SqliteStore;
use hooklatch::store::{Store, Windows};
use hooklatch::telemetry::metrics::Metrics;

use crate::support::http::{self, Answer, Request};

/// The admin token of these servers.
const TOKEN: &str = "open-sesame";

/// The secret of the source `signed`.
const SECRET: &str = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cywgMjQgYnl0ZXM=";

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than the ledger collects entries before it writes them.
const LEDGER_WITHIN: Duration = Duration::from_secs(5);

/// Both servers, listening.
struct Servers {
    public: SocketAddr,
    admin: SocketAddr,
    state: Arc<ServerState>,
    store: Arc<dyn Store>,
    desk: Arc<Desk>,
    _directory: tempfile::TempDir,
}

/// A handler that does as the event's type says.
#[derive(Default)]
struct Desk {
    applied: AtomicU32,
    /// `fragile` events are refused until this is set.
    is_mended: AtomicBool,
}

#[async_trait]
impl Handler for Desk {
    async fn apply(
        &self,
        _connection: HandlerConnection<'_>,
        events: &[&Event],
    ) -> Result<Vec<(EventKey, HandlerReply)>, HandlerError> {
        let mut replies = Vec::new();
        for event in events {
            match &*event.event_type {
                "fragile" if !self.is_mended.load(Ordering::SeqCst) => {
                    return Err(HandlerError::Permanent("the desk is broken".into()));
                }
                "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
                "curt" => replies.push((event.key.clone(), curt())),
                _ => {}
            }
            self.applied.fetch_add(1, Ordering::SeqCst);
        }
        Ok(replies)
    }
}

/// An answer with everything that must not reach the wire as it is.
fn curt() -> HandlerReply {
    let headers = [("x-desk", "7"), ("x desk", "no"), ("content-length", "1"), ("connection", "close")];
    HandlerReply {
        status: Some(202),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        body: Some(b"\x00\xFFdone".to_vec()),
    }
}

impl Servers {
    async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    async fn start_with(limits: Limits) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::connect(&url, Clock::system()).await.expect("opens the file"));
        store.migrate().await.expect("migrates");
        let metrics = Arc::new(Metrics::new());
        let services = Services {
            inbox: Inbox::start(store.clone(), options(), Clock::system(), metrics.clone()),
            ledger: Ledger::start(store.clone(), 1000, metrics.clone()),
            store: store.clone(),
            metrics,
            clock: Clock::system(),
            runtime: tokio::runtime::Handle::current(),
        };
        let desk = Arc::new(Desk::default());
        let sources = vec![
            source("shop", "none", vec![], &desk),
            source("signed", "standard-webhooks", vec![SECRET], &desk),
        ];
        let state = Arc::new(ServerState::new(services, sources, limits, Some(&Secret::new(TOKEN))));
        state.set_ready(true);
        let settings = ServerSettings { workers: 1, ..ServerSettings::default() };
        let listen = || bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let (public, admin) = (listen(), listen());
        let addresses = [&public, &admin].map(|listener| listener.local_addr().expect("listens"));
        tokio::spawn(public_server(state.clone(), public, &settings).expect("serves"));
        tokio::spawn(admin_server(state.clone(), admin, &settings).expect("serves"));
        Self { public: addresses[0], admin: addresses[1], state, store, desk, _directory: directory }
    }

    async fn deliver(&self, body: impl Into<Vec<u8>>) -> Answer {
        self.send(&Request::post("/hooks/shop", body)).await
    }

    async fn send(&self, request: &Request) -> Answer {
        http::send(self.public, request).await.expect("answers")
    }

    /// Sends to the admin server with the token.
    async fn operate(&self, method: &str, target: &str) -> Answer {
        let request = Request::new(method, target).header("authorization", format!("Bearer {TOKEN}"));
        http::send(self.admin, &request).await.expect("answers")
    }

    /// Asks the ledger until it holds this many entries that match.
    async fn ledger(&self, query: &str, entries: usize) -> Vec<serde_json::Value> {
        let deadline = tokio::time::Instant::now() + LEDGER_WITHIN;
        loop {
            let answer = self.operate("GET", &format!("/api/v1/deliveries?{query}")).await;
            let found = answer.json()["deliveries"].as_array().cloned().unwrap_or_default();
            if found.len() >= entries || tokio::time::Instant::now() > deadline {
                assert_eq!(found.len(), entries, "{query}: {found:?}");
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn applied(&self) -> u32 {
        self.desk.applied.load(Ordering::SeqCst)
    }
}

/// An event of this id and type.
fn event(id: &str, event_type: &str) -> String {
    format!(r#"{{"id":"{id}","type":"{event_type}"}}"#)
}

fn source(name: &str, scheme: &str, secrets: Vec<&str>, desk: &Arc<Desk>) -> Arc<Source> {
    let config = VerifyConfig { scheme: scheme.into(), ..VerifyConfig::default() };
    let secrets = secrets.into_iter().map(Secret::new).collect();
    Arc::new(Source {
        name: name.into(),
        consumer: name.into(),
        intake: Default::default(),
        verifier: Verifier::new(&config, secrets).expect("a verifier"),
        envelope: EnvelopeRules::default(),
        key_policy: KeyPolicy::Optional,
        replay_errors: ReplayErrors::Permanent,
        replay_guard: Default::default(),
        success_status: 200,
        handlers: vec![HandlerBinding { on: TypeFilter::default(), step: Step::Code(desk.clone()) }],
    })
}

fn options() -> InboxOptions {
    InboxOptions {
        hints: Default::default(),
        writers: 1,
        max_batch: 16,
        queue: 64,
        inflight_wait: Duration::from_secs(2),
        deadline: Duration::from_secs(10),
        handler_timeout: Duration::from_secs(5),
        windows: Windows { events: 24 * HOUR, answers: HOUR },
    }
}
