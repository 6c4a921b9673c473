//! A database of its own for each claim, and the values the claims are about.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use hooklatch::clock::{self, Clock};
use hooklatch::event::{Delivery, Event, EventKey, Fingerprint, JsonText, RawRequest};
use hooklatch::handler::{HandlerBinding, SqlHandler, Step, TypeFilter};
use hooklatch::inbox::outcome::EventState;
use hooklatch::raw_headers::RawHeaders;
use hooklatch::signature::{Verifier, VerifyConfig};
use hooklatch::source::{HandlerMask, KeyPolicy, ReplayErrors, Source};
use hooklatch::store::postgres::{PostgresOptions, PostgresStore, StatementCache};
use hooklatch::store::sqlite::SqliteStore;
use hooklatch::store::{Batch, BatchLimits, Dialect, FreshEvent, HandlerResult, NewEvent, Store, Windows};

use crate::support::database::{Backend, TestDatabase};

/// More than the transactions that any claim has open at once.
const CONNECTIONS: u32 = 12;

pub(super) const LIMITS: BatchLimits =
    BatchLimits { lock_wait: Duration::from_secs(10), statement: Duration::from_secs(10) };

/// Nothing that a claim writes is older than this, unless it lets time pass.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Past every [`HOUR`], and every grace a store gives transactions that are still open.
pub(super) const TWO_HOURS: Duration = Duration::from_secs(2 * 3600);

pub(super) const WINDOWS: Windows = Windows { events: HOUR, answers: HOUR };

/// Events that share a subtransaction.
pub(super) const CHUNK: usize = 16;

/// A migrated database that only one claim uses.
pub(super) struct Database {
    store: Arc<dyn Store>,
    database: TestDatabase,
}

impl Database {
    pub(super) async fn new(dialect: Dialect) -> Self {
        let this = Self::unmigrated(dialect).await;
        this.store.migrate().await.expect("migrates");
        this
    }

    pub(super) async fn unmigrated(dialect: Dialect) -> Self {
        let database = TestDatabase::new(match dialect {
            Dialect::Sqlite => Backend::Sqlite,
            Dialect::Postgres => Backend::Postgres,
        })
        .await;
        Self { store: open(&database).await, database }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn shared(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Another process's store on the same database.
    pub(super) async fn another(&self) -> Arc<dyn Store> {
        open(&self.database).await
    }

    pub(super) fn is_postgres(&self) -> bool {
        self.store.dialect() == Dialect::Postgres
    }

    /// The text for this dialect.
    pub(super) fn sql<'t>(&self, postgres: &'t str, sqlite: &'t str) -> &'t str {
        if self.is_postgres() { postgres } else { sqlite }
    }

    pub(super) async fn begin(&self) -> Box<dyn Batch> {
        self.store.begin(LIMITS).await.expect("begins")
    }

    /// Runs a statement as somebody else would.
    pub(super) async fn execute(&self, sql: &str) {
        self.database.execute(sql).await;
    }

    /// Makes everything in the inbox older, as if `by` had passed.
    pub(super) async fn pass(&self, by: Duration) {
        for (table, column) in [
            ("processed_events", "processed_at"),
            ("idempotency_keys", "created_at"),
            ("dead_letters", "died_at"),
            ("outbox", "sent_at"),
        ] {
            let update = if self.is_postgres() {
                let seconds = by.as_secs();
                format!("UPDATE hooklatch.{table} SET {column} = {column} - make_interval(secs => {seconds})")
            } else {
                format!("UPDATE {table} SET {column} = {column} - {}", by.as_micros())
            };
            self.execute(&update).await;
        }
    }

    /// The texts of a query's only column.
    pub(super) async fn texts(&self, sql: &str) -> Vec<String> {
        self.database.column(sql).await
    }

    /// Inserts events in a transaction of their own; true for each that was new.
    pub(super) async fn receive(&self, ids: &[&str]) -> Vec<bool> {
        let delivery = plain(ids);
        let mut batch = self.begin().await;
        let inserted = batch.insert_events(&new_events(&delivery)).await.expect("inserts");
        batch.commit().await.expect("commits");
        inserted
    }

    /// Runs handlers over events in a transaction of its own.
    pub(super) async fn handle(&self, delivery: &Delivery, chunk: usize) -> Vec<HandlerResult> {
        let mut batch = self.begin().await;
        let results = run(&mut *batch, delivery, chunk).await.expect("the batch goes on");
        batch.commit().await.expect("commits");
        results
    }
}

/// Opens a store as the program does.
async fn open(database: &TestDatabase) -> Arc<dyn Store> {
    match database.backend {
        Backend::Sqlite => {
            Arc::new(SqliteStore::connect(&database.url, Clock::system()).await.expect("opens"))
        }
        Backend::Postgres => {
            let options = PostgresOptions {
                url: database.url.clone(),
                max_connections: CONNECTIONS,
                acquire_timeout: Duration::from_secs(10),
                statement_cache: StatementCache::On,
                batch_limits: Some(BatchLimits { lock_wait: Duration::from_secs(1), ..LIMITS }),
            };
            Arc::new(PostgresStore::connect(options).await.expect("opens"))
        }
    }
}

pub(super) fn key(event_id: &str) -> EventKey {
    EventKey { consumer: "shop".into(), event_id: event_id.into() }
}

/// An event whose whole payload is its data.
pub(super) fn event(id: &str, data: &str) -> Event {
    let json = JsonText::parse(Bytes::from(data.to_owned())).expect("JSON");
    Event {
        key: key(id),
        event_type: "order_created".into(),
        occurred_at: DateTime::from_timestamp_micros(1_767_225_600_123_456),
        payload: json.clone(),
        data: json,
        order: None,
    }
}

pub(super) fn source(steps: Vec<Step>) -> Source {
    Source {
        name: "shop".into(),
        consumer: "shop".into(),
        intake: Default::default(),
        verifier: Verifier::new(
            &VerifyConfig { scheme: "none".into(), ..VerifyConfig::default() },
            Vec::new(),
        )
        .expect("a scheme"),
        envelope: Default::default(),
        key_policy: KeyPolicy::Optional,
        replay_errors: ReplayErrors::Permanent,
        replay_guard: Default::default(),
        success_status: 200,
        handlers: steps.into_iter().map(|step| HandlerBinding { on: TypeFilter::default(), step }).collect(),
    }
}

pub(super) fn sql(text: &str) -> Step {
    Step::Sql(Arc::new(SqlHandler::new(text).expect("one statement")))
}

pub(super) fn delivery(steps: Vec<Step>, events: Vec<Event>) -> Delivery {
    Delivery {
        id: clock::new_id(),
        source: Arc::new(source(steps)),
        is_batch: events.len() > 1,
        events,
        explicit_key: None,
        guard: None,
        request: RawRequest {
            target: "/hooks/shop?x=1".into(),
            headers: RawHeaders::from_iter([("content-type", "application/json")]),
            body: Bytes::from_static(b"{}"),
        },
        received_at: Clock::system().now(),
    }
}

/// A delivery of events that no handler is for.
pub(super) fn plain(ids: &[&str]) -> Delivery {
    delivery(Vec::new(), ids.iter().map(|id| event(id, "{}")).collect())
}

pub(super) fn new_event(event: &Event) -> NewEvent<'_> {
    NewEvent { event, source: "shop", state: EventState::Applied, status: 200, fingerprint: None }
}

pub(super) fn new_events(delivery: &Delivery) -> Vec<NewEvent<'_>> {
    delivery.events.iter().map(new_event).collect()
}

pub(super) fn fresh(delivery: &Delivery) -> Vec<FreshEvent<'_>> {
    delivery.events.iter().map(|event| FreshEvent { event, delivery }).collect()
}

pub(super) fn keys(delivery: &Delivery) -> Vec<&EventKey> {
    delivery.events.iter().map(|event| &event.key).collect()
}

pub(super) fn plan(source: &Source) -> HandlerMask {
    source.plan("order_created")
}

pub(super) async fn run(
    batch: &mut dyn Batch,
    delivery: &Delivery,
    chunk: usize,
) -> Result<Vec<HandlerResult>, hooklatch::store::StoreError> {
    batch.run_handlers(&delivery.source, plan(&delivery.source), &fresh(delivery), chunk).await
}

pub(super) fn fingerprint(byte: u8) -> Fingerprint {
    Fingerprint([byte; 32])
}
