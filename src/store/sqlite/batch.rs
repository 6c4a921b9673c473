//! A batch's transaction: the inbox's verbs as statements.
//!
//! Differs from PostgreSQL because a batch holds the only connection that writes: no other
//! transaction can hold one of its keys, so nothing is waited for after `begin`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::many_rows::{MAX_ROWS, ManyRows};
use super::rows::{self, horizon, json};
use super::writer::Lease;
use super::{SqliteStore, classify, handlers, outbox};
use crate::event::{EventKey, Fingerprint};
use crate::inbox::outcome::EventState;
use crate::reply::Reply;
use crate::source::{HandlerMask, Source};
use crate::store::{
    Age, Batch, BatchLimits, EntityRef, FreshEvent, HandlerResult, KeyRef, NewDeadLetter, NewEvent, NewKey,
    NewMessage, Revision, StoreError, StoredEvent, StoredKey, Windows,
};

/// The open transaction of a batch.
#[derive(Debug)]
pub(super) struct SqliteBatch {
    lease: Lease,
    now: DateTime<Utc>,
}

impl SqliteBatch {
    pub(super) async fn begin(store: &SqliteStore, limits: BatchLimits) -> Result<Self, StoreError> {
        let lease = store.writer.begin(limits.lock_wait, Some(limits.statement)).await?;
        Ok(Self { lease, now: store.clock.now() })
    }

    fn horizon(&self, window: Duration) -> i64 {
        horizon(self.now, window)
    }
}

#[async_trait]
impl Batch for SqliteBatch {
    async fn now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        Ok(self.now)
    }

    async fn insert_events(&mut self, events: &[NewEvent<'_>]) -> Result<Vec<bool>, StoreError> {
        static INSERT: ManyRows = ManyRows::new(include_str!("sql/insert_events.sql"));
        const DOING: &str = "insert event keys";
        let mut fresh = Vec::with_capacity(events.len());
        for events in events.chunks(MAX_ROWS) {
            let mut insert = sqlx::query(INSERT.of(events.len())).bind(rows::micros(self.now));
            for new in events {
                insert = insert
                    .bind(Arc::clone(&new.event.key.consumer))
                    .bind(Arc::clone(&new.event.key.event_id))
                    .bind(new.source)
                    .bind(Arc::clone(&new.event.event_type))
                    .bind(new.state.as_str())
                    .bind(new.status)
                    .bind(new.fingerprint.map(|Fingerprint(hash)| hash.to_vec()))
                    .bind(new.event.occurred_at.map(rows::micros));
            }
            let inserted = self.lease.fetch(DOING, insert).await?;
            let keys = events.iter().map(|new| (&*new.event.key.consumer, &*new.event.key.event_id));
            fresh.extend(which(keys, &inserted).map_err(classify::ours(DOING))?);
        }
        Ok(fresh)
    }

    async fn stored_events(
        &mut self,
        keys: &[&EventKey],
        windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError> {
        let read = sqlx::query(include_str!("sql/stored_events.sql"))
            .bind(event_keys(keys))
            .bind(self.horizon(windows.events))
            .bind(self.horizon(windows.answers));
        let found = self.lease.fetch("read events back", read).await?;
        in_order(keys.len(), &found, stored_event).map_err(classify::ours("read events back"))
    }

    async fn remove_events(&mut self, keys: &[&EventKey], windows: Windows) -> Result<(), StoreError> {
        let remove = sqlx::query(include_str!("sql/remove_events.sql"))
            .bind(event_keys(keys))
            .bind(self.horizon(windows.events));
        self.lease.execute("remove events that do not count any more", remove).await.map(drop)
    }

    async fn forget_events(&mut self, keys: &[&EventKey]) -> Result<(), StoreError> {
        let forget = sqlx::query(include_str!("sql/forget_events.sql")).bind(event_keys(keys));
        self.lease.execute("forget event keys", forget).await.map(drop)
    }

    async fn revise_events(&mut self, revisions: &[Revision<'_>]) -> Result<(), StoreError> {
        let revised: Vec<_> = revisions.iter().map(revision_row).collect();
        let revise = sqlx::query(include_str!("sql/revise_events.sql")).bind(json(&revised));
        self.lease.execute("revise events", revise).await.map(drop)
    }

    async fn insert_keys(&mut self, keys: &[NewKey<'_>]) -> Result<Vec<bool>, StoreError> {
        let new: Vec<_> = keys
            .iter()
            .map(|new| (new.key.source, new.key.key.as_str(), hex::encode(new.fingerprint.0)))
            .collect();
        let insert =
            sqlx::query(include_str!("sql/insert_keys.sql")).bind(json(&new)).bind(rows::micros(self.now));
        let inserted = self.lease.fetch("insert idempotency keys", insert).await?;
        let keys = keys.iter().map(|new| (new.key.source, new.key.key.as_str()));
        which(keys, &inserted).map_err(classify::ours("insert idempotency keys"))
    }

    async fn stored_keys(
        &mut self,
        keys: &[KeyRef<'_>],
        windows: Windows,
    ) -> Result<Vec<Option<StoredKey>>, StoreError> {
        let read = sqlx::query(include_str!("sql/stored_keys.sql"))
            .bind(idempotency_keys(keys))
            .bind(self.horizon(windows.answers));
        let found = self.lease.fetch("read idempotency keys back", read).await?;
        in_order(keys.len(), &found, stored_key).map_err(classify::ours("read idempotency keys back"))
    }

    async fn remove_keys(&mut self, keys: &[KeyRef<'_>], windows: Windows) -> Result<(), StoreError> {
        let remove = sqlx::query(include_str!("sql/remove_keys.sql"))
            .bind(idempotency_keys(keys))
            .bind(self.horizon(windows.answers));
        self.lease.execute("remove idempotency keys that have expired", remove).await.map(drop)
    }

    async fn forget_keys(&mut self, keys: &[KeyRef<'_>]) -> Result<(), StoreError> {
        let forget = sqlx::query(include_str!("sql/forget_keys.sql")).bind(idempotency_keys(keys));
        self.lease.execute("forget idempotency keys", forget).await.map(drop)
    }

    async fn settle_keys(&mut self, answers: &[(KeyRef<'_>, &Reply)]) -> Result<(), StoreError> {
        let answers: Vec<_> = answers.iter().map(|(key, reply)| answer_row(*key, reply)).collect();
        let settle = sqlx::query(include_str!("sql/settle_keys.sql")).bind(json(&answers));
        self.lease.execute("store answers under idempotency keys", settle).await.map(drop)
    }

    async fn entity_sequences(&mut self, entities: &[EntityRef<'_>]) -> Result<Vec<Option<i64>>, StoreError> {
        let names: Vec<_> = entities.iter().map(|entity| (entity.consumer, entity.entity)).collect();
        let read = sqlx::query(include_str!("sql/entity_sequences.sql")).bind(json(&names));
        let found = self.lease.fetch("read entity sequences", read).await?;
        in_order(entities.len(), &found, |row| row.try_get("sequence"))
            .map_err(classify::ours("read entity sequences"))
    }

    async fn advance_entities(&mut self, entities: &[(EntityRef<'_>, i64)]) -> Result<bool, StoreError> {
        let moved: Vec<_> = entities.iter().map(|(e, sequence)| (e.consumer, e.entity, sequence)).collect();
        let advance = sqlx::query(include_str!("sql/advance_entities.sql"))
            .bind(json(&moved))
            .bind(rows::micros(self.now));
        let advanced = self.lease.execute("advance entities", advance).await?;
        Ok(advanced == entities.len() as u64)
    }

    async fn try_handlers(
        &mut self,
        source: &Source,
        mask: HandlerMask,
        events: &[FreshEvent<'_>],
    ) -> Result<Option<Vec<HandlerResult>>, StoreError> {
        handlers::attempt(&mut self.lease, source, mask, events).await
    }

    async fn run_handlers(
        &mut self,
        source: &Source,
        mask: HandlerMask,
        events: &[FreshEvent<'_>],
        chunk: usize,
    ) -> Result<Vec<HandlerResult>, StoreError> {
        handlers::run(&mut self.lease, source, mask, events, chunk).await
    }

    async fn enqueue(&mut self, messages: &[NewMessage<'_>]) -> Result<(), StoreError> {
        if messages.is_empty() {
            return Ok(());
        }
        let enqueue = outbox::enqueue(messages, self.now);
        self.lease.execute("write messages into the outbox", enqueue).await.map(drop)
    }

    async fn bury(&mut self, letters: &[NewDeadLetter<'_>]) -> Result<(), StoreError> {
        // One statement each: bodies are large and letters are few.
        for letter in letters {
            let FreshEvent { event, delivery } = letter.fresh;
            let bury = sqlx::query(include_str!("sql/bury.sql"))
                .bind(letter.id.hyphenated())
                .bind(&*event.key.consumer)
                .bind(&*event.key.event_id)
                .bind(&*delivery.source.name)
                .bind(&*event.event_type)
                .bind(letter.cause.as_str())
                .bind(letter.reason)
                .bind(&*delivery.request.target)
                .bind(rows::raw_headers(&delivery.request.headers))
                .bind(&*delivery.request.body)
                .bind(rows::micros(delivery.received_at))
                .bind(rows::micros(self.now));
            self.lease.execute("keep a dead letter", bury).await?;
        }
        Ok(())
    }

    async fn exhume(&mut self, keys: &[&EventKey]) -> Result<(), StoreError> {
        let exhume = sqlx::query(include_str!("sql/exhume.sql")).bind(event_keys(keys));
        self.lease.execute("remove the dead letters of applied events", exhume).await.map(drop)
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.lease.commit().await
    }
}

fn revision_row(revision: &Revision<'_>) -> serde_json::Value {
    json!({
        "consumer": &*revision.key.consumer,
        "event_id": &*revision.key.event_id,
        "state": revision.state.as_str(),
        "status": revision.status,
        "headers": revision.reply.as_ref().map(|reply| json(&reply.headers)),
        "body": revision.reply.as_ref().map(|reply| hex::encode(&reply.body)),
    })
}

fn answer_row(key: KeyRef<'_>, reply: &Reply) -> serde_json::Value {
    json!({
        "source": key.source,
        "key": key.key.as_str(),
        "status": reply.status,
        "headers": json(&reply.headers),
        "body": hex::encode(&reply.body),
    })
}

fn event_keys(keys: &[&EventKey]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| (&*key.consumer, &*key.event_id)).collect();
    json(&keys)
}

fn idempotency_keys(keys: &[KeyRef<'_>]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| (key.source, key.key.as_str())).collect();
    json(&keys)
}

/// Which of these keys a statement returned.
fn which<'k>(
    keys: impl ExactSizeIterator<Item = (&'k str, &'k str)>,
    returned: &[SqliteRow],
) -> Result<Vec<bool>, sqlx::Error> {
    if returned.len() == keys.len() {
        return Ok(vec![true; keys.len()]);
    }
    let returned: HashSet<(&str, &str)> = returned
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, sqlx::Error>>()?;
    Ok(keys.map(|key| returned.contains(&key)).collect())
}

/// Puts rows with an `ordinal` in the places they were asked for.
fn in_order<T>(
    places: usize,
    found: &[SqliteRow],
    read: impl Fn(&SqliteRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<Option<T>>, sqlx::Error> {
    let mut in_order: Vec<Option<T>> = std::iter::repeat_with(|| None).take(places).collect();
    for row in found {
        let place: u32 = row.try_get("ordinal")?;
        *in_order.get_mut(place as usize).ok_or_else(|| rows::unreadable("an ordinal"))? = Some(read(row)?);
    }
    Ok(in_order)
}

fn stored_event(row: &SqliteRow) -> Result<StoredEvent, sqlx::Error> {
    let answer_left = Duration::from_micros(row.try_get::<i64, _>("answer_left_us")?.unsigned_abs());
    let age = match (row.try_get("expired")?, answer_left.is_zero()) {
        (true, _) => Age::Expired,
        (false, true) => Age::EventLive,
        (false, false) => Age::AnswerLive,
    };
    Ok(StoredEvent {
        source: row.try_get::<&str, _>("source")?.into(),
        state: EventState::parse(row.try_get("state")?).ok_or_else(|| rows::unreadable("a state"))?,
        status: row.try_get("status")?,
        reply: rows::reply(row)?,
        fingerprint: rows::fingerprint(row)?,
        age,
        answer_left,
    })
}

fn stored_key(row: &SqliteRow) -> Result<StoredKey, sqlx::Error> {
    Ok(StoredKey {
        fingerprint: rows::fingerprint(row)?.ok_or_else(|| rows::unreadable("a fingerprint"))?,
        reply: rows::reply(row)?.ok_or_else(|| rows::unreadable("an answer"))?,
        live: row.try_get("live")?,
    })
}
