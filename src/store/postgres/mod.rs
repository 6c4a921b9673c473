//! The store over PostgreSQL: any number of replicas on one database.
//!
//! Everything lives in the schema `hooklatch` and is named in full; a proxy that pools
//! transactions may stand between, and then no session state is relied on (`at_once.rs` and LISTEN are for
//! where none does). Expiry is judged by the database's clock. Mirrors `sqlite/` file by file, but for the
//! ways of sending many rows: `at_once.rs` and `copy_rows.rs` here, `many_rows.rs` there.

mod at_once;
mod batch;
mod classify;
mod connect;
mod copy_rows;
mod handlers;
mod kept;
mod ledger;
mod operator;
pub(crate) mod outbox;
mod retention;
mod rows;
mod schema;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::{
    AtOnce, Batch, BatchLimits, DeadLetter, DeadLetterFilter, Dialect, EventRecord, FreshEvent, LedgerEntry,
    LedgerFilter, MigrationStatus, NewEvent, Prunable, Rejection, SqlHandler, Store, StoreError, StoredEvent,
    Windows,
};
use crate::event::EventKey;
use kept::Kept;

pub use connect::{PostgresOptions, StatementCache};

/// The store in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    pool: PgPool,
    /// Statements are prepared once a connection. False behind a proxy that pools transactions.
    prepared: bool,
    /// Sessions are this process's own, and carry the limits of a batch.
    has_session_limits: bool,
    /// Those that the short way of a batch keeps to itself.
    kept: Kept,
}

#[async_trait]
impl Store for PostgresStore {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        schema::migrate(self).await
    }

    async fn migrations(&self) -> Result<Vec<MigrationStatus>, StoreError> {
        schema::migrations(self).await
    }

    async fn check_handler(&self, handler: &SqlHandler) -> Result<(), StoreError> {
        handlers::check(self, handler).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        retention::now(self).await
    }

    async fn inbox_rows(&self) -> Result<u64, StoreError> {
        retention::inbox_rows(self).await
    }

    async fn close(&self) {
        self.kept.release();
        self.pool.close().await;
    }

    async fn begin(&self, limits: BatchLimits) -> Result<Box<dyn Batch>, StoreError> {
        Ok(Box::new(batch::PostgresBatch::begin(self, limits).await?))
    }

    fn can_apply_at_once(&self) -> bool {
        self.has_session_limits
    }

    async fn apply_at_once(
        &self,
        events: &[NewEvent<'_>],
        fresh: &[FreshEvent<'_>],
        handler: &SqlHandler,
        chunk: Option<usize>,
    ) -> Result<AtOnce, StoreError> {
        at_once::apply(self, events, fresh, handler, chunk).await
    }

    async fn stored_at_once(
        &self,
        keys: &[&EventKey],
        windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError> {
        at_once::stored(self, keys, windows).await
    }

    async fn reject_at_once(&self, rejections: &[Rejection<'_>]) -> Result<Vec<bool>, StoreError> {
        at_once::reject(self, rejections).await
    }

    async fn prune(&self, what: Prunable, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        retention::prune(self, what, keep, limit).await
    }

    async fn count_prunable(&self, what: Prunable, keep: Duration) -> Result<u64, StoreError> {
        retention::count_prunable(self, what, keep).await
    }

    async fn record_deliveries(&self, entries: &[LedgerEntry]) -> Result<(), StoreError> {
        ledger::record(self, entries).await
    }

    async fn deliveries(&self, filter: &LedgerFilter) -> Result<Vec<LedgerEntry>, StoreError> {
        ledger::read(self, filter).await
    }

    async fn events(&self, consumers: &[String], event_id: &str) -> Result<Vec<EventRecord>, StoreError> {
        operator::events(self, consumers, event_id).await
    }

    async fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>, StoreError> {
        operator::dead_letters(self, filter).await
    }

    async fn discard_dead_letters(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        operator::discard_dead_letters(self, ids).await
    }

    async fn forget_event(&self, key: &EventKey) -> Result<bool, StoreError> {
        operator::forget_event(self, key).await
    }
}
