//! A store whose database has not been reached yet.
//!
//! Stands in its place from the start, so that the process can listen and say 503 while it waits.
//! Every verb fails with `Unavailable` until the store has arrived; then each goes there. Holds no
//! SQL and decides nothing.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::outbox::{
    AttemptRecord, Backlog, ClaimRequest, Claimed, DestinationState, Lease, MessageFilter, MessageRecord,
    OriginFilter, OutboxHints, OutboxStore, Settled, Settlement,
};
use super::{
    AtOnce, Batch, BatchLimits, DeadLetter, DeadLetterFilter, Dialect, EventRecord, FreshEvent, LedgerEntry,
    LedgerFilter, MigrationStatus, NewEvent, Prunable, Rejection, SqlHandler, Store, StoreError,
    StoreErrorKind, StoredEvent, Windows,
};
use crate::event::EventKey;

/// A place for a store.
pub struct AwaitedStore {
    dialect: Dialect,
    store: OnceLock<Arc<dyn Store>>,
}

impl AwaitedStore {
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, store: OnceLock::new() }
    }

    /// The store is there. A second one is ignored.
    pub fn arrive(&self, store: Arc<dyn Store>) {
        self.store.get_or_init(|| store);
    }

    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.store.get().is_some()
    }

    fn there(&self) -> Result<&dyn Store, StoreError> {
        self.store.get().map(|store| &**store).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Unavailable,
                "reach the database",
                "it has not answered since the process started",
            )
        })
    }
}

impl fmt::Debug for AwaitedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitedStore").field("has_arrived", &self.has_arrived()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for AwaitedStore {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.there()?.migrate().await
    }

    async fn migrations(&self) -> Result<Vec<MigrationStatus>, StoreError> {
        self.there()?.migrations().await
    }

    async fn check_handler(&self, handler: &SqlHandler) -> Result<(), StoreError> {
        self.there()?.check_handler(handler).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.there()?.now().await
    }

    async fn inbox_rows(&self) -> Result<u64, StoreError> {
        self.there()?.inbox_rows().await
    }

    async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }

    async fn begin(&self, limits: BatchLimits) -> Result<Box<dyn Batch>, StoreError> {
        self.there()?.begin(limits).await
    }

    fn can_apply_at_once(&self) -> bool {
        self.there().is_ok_and(|store| store.can_apply_at_once())
    }

    async fn apply_at_once(
        &self,
        events: &[NewEvent<'_>],
        fresh: &[FreshEvent<'_>],
        handler: &SqlHandler,
        chunk: Option<usize>,
    ) -> Result<AtOnce, StoreError> {
        self.there()?.apply_at_once(events, fresh, handler, chunk).await
    }

    async fn stored_at_once(
        &self,
        keys: &[&EventKey],
        windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError> {
        self.there()?.stored_at_once(keys, windows).await
    }

    async fn reject_at_once(&self, rejections: &[Rejection<'_>]) -> Result<Vec<bool>, StoreError> {
        self.there()?.reject_at_once(rejections).await
    }

    async fn prune(&self, what: Prunable, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        self.there()?.prune(what, keep, limit).await
    }

    async fn count_prunable(&self, what: Prunable, keep: Duration) -> Result<u64, StoreError> {
        self.there()?.count_prunable(what, keep).await
    }

    async fn record_deliveries(&self, entries: &[LedgerEntry]) -> Result<(), StoreError> {
        self.there()?.record_deliveries(entries).await
    }

    async fn deliveries(&self, filter: &LedgerFilter) -> Result<Vec<LedgerEntry>, StoreError> {
        self.there()?.deliveries(filter).await
    }

    async fn events(&self, consumers: &[String], event_id: &str) -> Result<Vec<EventRecord>, StoreError> {
        self.there()?.events(consumers, event_id).await
    }

    async fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>, StoreError> {
        self.there()?.dead_letters(filter).await
    }

    async fn discard_dead_letters(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        self.there()?.discard_dead_letters(ids).await
    }

    async fn forget_event(&self, key: &EventKey) -> Result<bool, StoreError> {
        self.there()?.forget_event(key).await
    }
}

#[async_trait]
impl OutboxStore for AwaitedStore {
    async fn claim_messages(&self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        self.there()?.claim_messages(request).await
    }

    async fn extend_leases(&self, held: &[Lease], lease: Duration) -> Result<Vec<Uuid>, StoreError> {
        self.there()?.extend_leases(held, lease).await
    }

    async fn settle_messages(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        self.there()?.settle_messages(settlements).await
    }

    async fn release_messages(&self, held: &[Lease]) -> Result<(), StoreError> {
        self.there()?.release_messages(held).await
    }

    async fn free_orphans(&self, destination: &str) -> Result<u64, StoreError> {
        self.there()?.free_orphans(destination).await
    }

    async fn outbox_hints(&self) -> Result<Option<Box<dyn OutboxHints>>, StoreError> {
        self.there()?.outbox_hints().await
    }

    async fn destination_states(&self) -> Result<Vec<DestinationState>, StoreError> {
        self.there()?.destination_states().await
    }

    async fn pause_destination(&self, name: &str, reason: &str) -> Result<(), StoreError> {
        self.there()?.pause_destination(name, reason).await
    }

    async fn resume_destination(&self, name: &str) -> Result<bool, StoreError> {
        self.there()?.resume_destination(name).await
    }

    async fn open_breaker(&self, name: &str, pause: Duration, reason: &str) -> Result<(), StoreError> {
        self.there()?.open_breaker(name, pause, reason).await
    }

    async fn close_breaker(&self, name: &str) -> Result<(), StoreError> {
        self.there()?.close_breaker(name).await
    }

    async fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        self.there()?.backlog().await
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>, StoreError> {
        self.there()?.messages(filter).await
    }

    async fn count_messages(&self, filter: &MessageFilter) -> Result<u64, StoreError> {
        self.there()?.count_messages(filter).await
    }

    async fn messages_of_event(&self, event: &OriginFilter<'_>) -> Result<Vec<MessageRecord>, StoreError> {
        self.there()?.messages_of_event(event).await
    }

    async fn message_payload(&self, id: Uuid) -> Result<Option<Bytes>, StoreError> {
        self.there()?.message_payload(id).await
    }

    async fn message_attempts(&self, id: Uuid) -> Result<Vec<AttemptRecord>, StoreError> {
        self.there()?.message_attempts(id).await
    }

    async fn revive_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        self.there()?.revive_messages(ids).await
    }

    async fn discard_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        self.there()?.discard_messages(ids).await
    }
}
