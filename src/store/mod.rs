//! The store: domain verbs over PostgreSQL and SQLite.
//!
//! The batch algorithm lives in `inbox::apply` and exists once; the dialects hold SQL and binds.
//! `postgres/` and `sqlite/` mirror each other file by file and statement by statement; a
//! deliberate difference says "Differs because …". Only this module imports sqlx for statements.
//!
//! Expiry is judged by the database's clock on PostgreSQL, and by the process's clock on SQLite,
//! where they are the same.

pub mod awaited;
mod bisect;
pub mod error;
mod handler_answer;
mod migration;
pub mod outbox;
pub mod postgres;
mod records;
pub mod sql_handler;
pub mod sqlite;
mod visible_headers;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::event::{Delivery, Event, EventKey, Fingerprint, IdempotencyKey};
use crate::handler::HandlerReply;
use crate::inbox::outcome::EventState;
use crate::reply::Reply;
use crate::source::{HandlerMask, Source};

pub use error::{StoreError, StoreErrorKind};
pub use outbox::{NewMessage, OutboxStore};
pub use records::{
    DeadLetter, DeadLetterFilter, EventRecord, LedgerEntry, LedgerFilter, MigrationStatus, Prunable,
};
pub use sql_handler::SqlHandler;

/// A store, as the rest of the program sees it.
#[async_trait]
pub trait Store: OutboxStore + Send + Sync + 'static {
    fn dialect(&self) -> Dialect;

    // Schema

    /// Applies the migrations that are missing and returns their names. Safe when several replicas
    /// start at once. Refuses a schema newer than this program.
    async fn migrate(&self) -> Result<Vec<String>, StoreError>;
    /// Every migration this program or the database knows, in order.
    async fn migrations(&self) -> Result<Vec<MigrationStatus>, StoreError>;
    /// Prepares a handler's statement without running it.
    async fn check_handler(&self, handler: &SqlHandler) -> Result<(), StoreError>;

    // Health

    /// The database's clock. Also the readiness probe: one cheap round trip.
    async fn now(&self) -> Result<DateTime<Utc>, StoreError>;
    /// Rows of `processed_events`; an estimate on PostgreSQL.
    async fn inbox_rows(&self) -> Result<u64, StoreError>;
    /// Waits for open work and closes all connections.
    async fn close(&self);

    // Inbox

    /// Opens a transaction for a batch. Dropping it rolls everything back.
    async fn begin(&self, limits: BatchLimits) -> Result<Box<dyn Batch>, StoreError>;
    /// Whether [`apply_at_once`](Self::apply_at_once) is worth preparing for.
    fn can_apply_at_once(&self) -> bool {
        false
    }
    /// Inserts the keys of `events` and runs `handler` over those that were new, in one statement that
    /// commits by itself. All are of one source and in order of arrival; `fresh` are the same events.
    /// `chunk`: so many share a subtransaction, and one that fails takes no other with it; `None`: all or
    /// nothing. For stores that spare time by it.
    async fn apply_at_once(
        &self,
        _events: &[NewEvent<'_>],
        _fresh: &[FreshEvent<'_>],
        _handler: &SqlHandler,
        _chunk: Option<usize>,
    ) -> Result<AtOnce, StoreError> {
        Ok(AtOnce::Unsupported)
    }
    /// Reads events back that `apply_at_once` found there, in one statement. `None`: there is no such row (any
    /// more).
    async fn stored_at_once(
        &self,
        keys: &[&EventKey],
        windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError>;
    /// Keeps events on which `apply_at_once` failed as rejected, with their dead letters, in one statement
    /// that commits by itself. False for each that another transaction has brought in meanwhile: nothing is
    /// kept of it.
    async fn reject_at_once(&self, rejections: &[Rejection<'_>]) -> Result<Vec<bool>, StoreError>;

    // Retention

    /// Deletes up to `limit` rows older than `keep` in a transaction of its own.
    async fn prune(&self, what: Prunable, keep: Duration, limit: u32) -> Result<u64, StoreError>;
    /// How many rows `prune` would delete now.
    async fn count_prunable(&self, what: Prunable, keep: Duration) -> Result<u64, StoreError>;

    // Ledger

    /// Writes ledger entries, in a transaction of its own.
    async fn record_deliveries(&self, entries: &[LedgerEntry]) -> Result<(), StoreError>;
    /// Reads the ledger, newest first.
    async fn deliveries(&self, filter: &LedgerFilter) -> Result<Vec<LedgerEntry>, StoreError>;

    // What an operator sees and does

    /// What `processed_events` holds of an event id in any of these consumers.
    async fn events(&self, consumers: &[String], event_id: &str) -> Result<Vec<EventRecord>, StoreError>;
    /// Dead letters, oldest first, after the id `after`.
    async fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>, StoreError>;
    /// Removes dead letters without applying them; returns how many were there.
    async fn discard_dead_letters(&self, ids: &[Uuid]) -> Result<u64, StoreError>;
    /// Removes an event key so that its next delivery is new again. True if it was there.
    async fn forget_event(&self, key: &EventKey) -> Result<bool, StoreError>;
}

/// The open transaction of a batch of deliveries.
///
/// Slices of keys are sorted and without repetition, so that two replicas cannot deadlock; results
/// stand in the order of their arguments.
#[async_trait]
pub trait Batch: Send {
    /// The transaction's time by the clock that judges expiry.
    async fn now(&mut self) -> Result<DateTime<Utc>, StoreError>;

    /// Inserts event keys that are not there yet; true for each that was inserted. Waits for a
    /// transaction elsewhere that holds the same key, up to `BatchLimits::lock_wait`, then fails
    /// with `LockTimeout`.
    async fn insert_events(&mut self, events: &[NewEvent<'_>]) -> Result<Vec<bool>, StoreError>;
    /// Reads events back, in a statement that follows the insert. `None`: there is no such row
    /// (any more).
    async fn stored_events(
        &mut self,
        keys: &[&EventKey],
        windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError>;
    /// Deletes those of these rows that do not count any more: older than `windows.events`, or
    /// rejected. Others stay.
    async fn remove_events(&mut self, keys: &[&EventKey], windows: Windows) -> Result<(), StoreError>;
    /// Deletes rows that this transaction inserted.
    async fn forget_events(&mut self, keys: &[&EventKey]) -> Result<(), StoreError>;
    /// Changes state and answer of rows that this transaction inserted.
    async fn revise_events(&mut self, revisions: &[Revision<'_>]) -> Result<(), StoreError>;

    /// Inserts idempotency keys that are not there yet; true for each that was inserted. Waits as
    /// `insert_events` does.
    async fn insert_keys(&mut self, keys: &[NewKey<'_>]) -> Result<Vec<bool>, StoreError>;
    /// Reads idempotency keys back. `None`: there is no such row (any more).
    async fn stored_keys(
        &mut self,
        keys: &[KeyRef<'_>],
        windows: Windows,
    ) -> Result<Vec<Option<StoredKey>>, StoreError>;
    /// Deletes those of these keys that are older than `windows.answers`.
    async fn remove_keys(&mut self, keys: &[KeyRef<'_>], windows: Windows) -> Result<(), StoreError>;
    /// Deletes keys that this transaction inserted.
    async fn forget_keys(&mut self, keys: &[KeyRef<'_>]) -> Result<(), StoreError>;
    /// Stores the answers of keys that this transaction inserted.
    async fn settle_keys(&mut self, answers: &[(KeyRef<'_>, &Reply)]) -> Result<(), StoreError>;

    /// The newest sequence that each (consumer, entity) has seen.
    async fn entity_sequences(&mut self, entities: &[EntityRef<'_>]) -> Result<Vec<Option<i64>>, StoreError>;
    /// Moves entities forward. False if one of them has meanwhile seen something newer: the batch
    /// then starts again.
    async fn advance_entities(&mut self, entities: &[(EntityRef<'_>, i64)]) -> Result<bool, StoreError>;

    /// Runs the handlers of `mask` over all `events` at once, in the belief that none fails. `None`:
    /// one did; the transaction is of no more use, and the batch starts again with `run_handlers`.
    async fn try_handlers(
        &mut self,
        source: &Source,
        mask: HandlerMask,
        events: &[FreshEvent<'_>],
    ) -> Result<Option<Vec<HandlerResult>>, StoreError>;
    /// Runs the handlers of `mask` over `events`, in order, each event whole or not at all. A
    /// failing event takes no other with it. `chunk` events share a subtransaction until one fails.
    async fn run_handlers(
        &mut self,
        source: &Source,
        mask: HandlerMask,
        events: &[FreshEvent<'_>],
        chunk: usize,
    ) -> Result<Vec<HandlerResult>, StoreError>;

    /// Writes messages into the outbox, in this order.
    async fn enqueue(&mut self, messages: &[NewMessage<'_>]) -> Result<(), StoreError>;

    /// Keeps events for a person. One dead letter an event: a second failure replaces the first
    /// under the first's id, so that an operator can try it again, and counts an attempt.
    async fn bury(&mut self, letters: &[NewDeadLetter<'_>]) -> Result<(), StoreError>;
    /// Removes the dead letters of events that have now been applied.
    async fn exhume(&mut self, keys: &[&EventKey]) -> Result<(), StoreError>;

    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Which database a store speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    Postgres,
    Sqlite,
}

impl Dialect {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

/// How long a batch may wait and run.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// For a key that another transaction holds.
    pub lock_wait: Duration,
    /// For one statement, a handler's too.
    pub statement: Duration,
}

/// How long rows count.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// `retention.processed_events`
    pub events: Duration,
    /// `retention.idempotency_keys`
    pub answers: Duration,
}

/// A row to insert into `processed_events`.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    pub event: &'a Event,
    pub source: &'a str,
    /// What the row says unless it is revised.
    pub state: EventState,
    pub status: u16,
    /// Set when the sender's explicit key is the event id itself.
    pub fingerprint: Option<Fingerprint>,
}

/// A row of `processed_events`, as a duplicate meets it.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    pub source: Arc<str>,
    pub state: EventState,
    pub status: u16,
    /// A handler's own answer; `None`: the standard one.
    pub reply: Option<Reply>,
    pub fingerprint: Option<Fingerprint>,
    pub age: Age,
    /// How long the answer will still be replayed; zero when it is not.
    pub answer_left: Duration,
}

/// How a row's age compares with the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The event counts and its answer is replayed.
    AnswerLive,
    /// The event counts, its answer has expired.
    EventLive,
    /// The row counts as absent.
    Expired,
}

/// A change to a row this transaction inserted.
#[derive(Clone, Debug)]
pub struct Revision<'a> {
    pub key: &'a EventKey,
    pub state: EventState,
    pub status: u16,
    /// A handler's own answer; `None`: the standard one.
    pub reply: Option<Reply>,
}

/// A row to insert into `idempotency_keys`.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    pub key: KeyRef<'a>,
    pub fingerprint: Fingerprint,
}

/// The identity of an idempotency key: its scope is the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    pub source: &'a str,
    pub key: &'a IdempotencyKey,
}

/// A row of `idempotency_keys`.
#[derive(Clone, Debug)]
pub struct StoredKey {
    pub fingerprint: Fingerprint,
    pub reply: Reply,
    /// The outcome of the delivery that stored it.
    pub live: bool,
}

/// An entity whose events are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityRef<'a> {
    pub consumer: &'a str,
    pub entity: &'a str,
}

/// A fresh event with the delivery that brought it.
#[derive(Clone, Copy, Debug)]
pub struct FreshEvent<'a> {
    pub event: &'a Event,
    pub delivery: &'a Delivery,
}

/// What came of a batch in one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// It is committed: what became of each event.
    Committed(Vec<EventAtOnce>),
    /// The handler failed, and nothing was done.
    HandlerFailed,
    /// The store has no such way for this handler, and nothing was done.
    Unsupported,
}

/// What became of one event in one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventAtOnce {
    /// It was new.
    Applied,
    /// Its key was there before. Nothing was done.
    Known,
    /// It was new, and the handler failed on it. Nothing is left of it, not even its key.
    Failed { permanent: bool, reason: String },
}

/// An event that was refused, and what is kept of it.
#[derive(Clone, Debug)]
pub struct Rejection<'a> {
    pub row: NewEvent<'a>,
    pub letter: NewDeadLetter<'a>,
}

/// What the handlers made of one event.
#[derive(Clone, Debug)]
pub enum HandlerResult {
    Applied(Option<HandlerReply>),
    /// Undone. `permanent`: it will never succeed.
    Failed {
        permanent: bool,
        reason: String,
    },
}

/// Why an event became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathCause {
    /// A handler refused it for good.
    Rejected,
    /// A handler failed and the source replays every answer (`replay_errors = "all"`).
    Failed,
    /// Older than `retention.processed_events`: nobody can tell whether it was processed.
    TooOld,
}

impl DeathCause {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::TooOld => "too-old",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Rejected, Self::Failed, Self::TooOld].into_iter().find(|c| c.as_str() == text)
    }
}

/// An event to keep for a person, with the request it came in.
#[derive(Clone, Debug)]
pub struct NewDeadLetter<'a> {
    pub id: Uuid,
    pub fresh: FreshEvent<'a>,
    pub cause: DeathCause,
    pub reason: &'a str,
}
