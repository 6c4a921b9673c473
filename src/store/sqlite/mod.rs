//! The store over SQLite: one file, embedded.
//!
//! One connection writes, and whoever wants to write holds it for a whole transaction
//! (`writer.rs`); a few others read. Write-ahead log, every commit durable. Mirrors `postgres/` file
//! by file and statement by statement. `writer.rs` and `checkpoint.rs` have no counterpart there,
//! because only here is there one writer and a log that we keep short ourselves.

mod answers;
mod batch;
mod checkpoint;
mod classify;
mod connect;
mod handlers;
mod ledger;
mod many_rows;
mod operator;
pub(crate) mod outbox;
mod retention;
mod rows;
mod schema;
mod writer;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::SqlitePool;
use uuid::Uuid;

use super::{
    Batch, BatchLimits, DeadLetter, DeadLetterFilter, Dialect, EventRecord, LedgerEntry, LedgerFilter,
    MigrationStatus, Prunable, Rejection, SqlHandler, Store, StoreError, StoredEvent, Windows,
};
use crate::clock::Clock;
use crate::event::EventKey;
use checkpoint::Checkpointer;
use writer::Writer;

/// The store in a SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    clock: Clock,
    writer: Writer,
    readers: SqlitePool,
    checkpointer: Checkpointer,
}

#[async_trait]
impl Store for SqliteStore {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
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
        sqlx::query(include_str!("sql/probe.sql"))
            .execute(&self.readers)
            .await
            .map_err(classify::ours("probe the database"))?;
        Ok(self.clock.now())
    }

    async fn inbox_rows(&self) -> Result<u64, StoreError> {
        retention::inbox_rows(self).await
    }

    async fn close(&self) {
        self.checkpointer.stop().await;
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn begin(&self, limits: BatchLimits) -> Result<Box<dyn Batch>, StoreError> {
        Ok(Box::new(batch::SqliteBatch::begin(self, limits).await?))
    }

    // There is no short way here that could have found events or left them out.

    async fn stored_at_once(
        &self,
        keys: &[&EventKey],
        _windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError> {
        Ok(vec![None; keys.len()])
    }

    async fn reject_at_once(&self, rejections: &[Rejection<'_>]) -> Result<Vec<bool>, StoreError> {
        Ok(vec![false; rejections.len()])
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
