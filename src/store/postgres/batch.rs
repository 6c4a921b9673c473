//! A batch's transaction: the inbox's verbs as statements.
//!
//! A statement carries many rows as arrays. Those that meet existing rows on the way of every
//! delivery go through an index whatever the planner believes; the rare ones that join are planned
//! anew each time, because a plan made while a table was small would read all of it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgTransaction, Row};

use super::connect::Query;
use super::rows::{self, event_keys, idempotency_keys, in_order, seconds, storable, unreadable};
use super::{PostgresStore, classify, handlers, outbox};
use crate::event::{EventKey, Fingerprint};
use crate::inbox::outcome::EventState;
use crate::reply::Reply;
use crate::source::{HandlerMask, Source};
use crate::store::{
    Age, Batch, BatchLimits, EntityRef, FreshEvent, HandlerResult, KeyRef, NewDeadLetter, NewEvent, NewKey,
    NewMessage, Revision, StoreError, StoreErrorKind, StoredEvent, StoredKey, Windows,
};

const COMMITTING: &str = "commit a batch";

/// The open transaction of a batch.
#[derive(Debug)]
pub(super) struct PostgresBatch {
    pub(super) transaction: PgTransaction<'static>,
    pub(super) limits: BatchLimits,
    pub(super) prepared: bool,
    /// A statement failed: the server would take COMMIT for ROLLBACK, and not call it an error.
    failed: bool,
}

impl PostgresBatch {
    pub(super) async fn begin(store: &PostgresStore, limits: BatchLimits) -> Result<Self, StoreError> {
        let transaction = store.transaction("open a transaction", limits).await?;
        Ok(Self { transaction, limits, prepared: store.prepared, failed: false })
    }

    /// A statement of the usual way.
    pub(super) fn query(&self, sql: &'static str) -> Query<'static> {
        sqlx::query(sql).persistent(self.prepared)
    }

    /// A rare statement that joins, planned for the table as it is.
    fn planned_anew(sql: &'static str) -> Query<'static> {
        sqlx::query(sql).persistent(false)
    }

    async fn fetch(&mut self, doing: &'static str, query: Query<'_>) -> Result<Vec<PgRow>, StoreError> {
        let found = query.fetch_all(&mut *self.transaction).await;
        self.failed |= found.is_err();
        found.map_err(classify::ours(doing))
    }

    async fn execute(&mut self, doing: &'static str, query: Query<'_>) -> Result<(), StoreError> {
        let done = query.execute(&mut *self.transaction).await;
        self.failed |= done.is_err();
        done.map(drop).map_err(classify::ours(doing))
    }
}

#[async_trait]
impl Batch for PostgresBatch {
    async fn now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        const DOING: &str = "ask the database for the time";
        let query = self.query(include_str!("sql/now.sql"));
        let found = self.fetch(DOING, query).await?;
        found
            .first()
            .ok_or(sqlx::Error::RowNotFound)
            .and_then(|row| row.try_get(0))
            .map_err(classify::ours(DOING))
    }

    async fn insert_events(&mut self, events: &[NewEvent<'_>]) -> Result<Vec<bool>, StoreError> {
        const DOING: &str = "insert event keys";
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let Kinds { kinds, of_events } = Kinds::of(events);
        let is_known = |known: fn(&NewEvent<'_>) -> bool| events.iter().any(known);
        let fingerprints = || events.iter().map(|new| new.fingerprint.map(|Fingerprint(hash)| hash));
        let insert = self
            .query(include_str!("sql/insert_events.sql"))
            .bind(kinds.iter().map(|kind| kind.consumer).collect::<Vec<_>>())
            .bind(kinds.iter().map(|kind| kind.source).collect::<Vec<_>>())
            .bind(kinds.iter().map(|kind| kind.event_type).collect::<Vec<_>>())
            .bind(kinds.iter().map(|kind| kind.state.as_str()).collect::<Vec<_>>())
            .bind(kinds.iter().map(|kind| rows::status(kind.status)).collect::<Vec<_>>())
            .bind(events.iter().map(|new| &*new.event.key.event_id).collect::<Vec<_>>())
            .bind((kinds.len() > 1).then_some(of_events))
            .bind(is_known(|new| new.fingerprint.is_some()).then(|| fingerprints().collect::<Vec<_>>()))
            .bind(
                is_known(|new| new.event.occurred_at.is_some())
                    .then(|| events.iter().map(|new| new.event.occurred_at).collect::<Vec<_>>()),
            );
        let told = self.fetch(DOING, insert).await?;
        let row = told.first().ok_or(sqlx::Error::RowNotFound);
        row.and_then(|row| inserted(events, row)).map_err(classify::ours(DOING))
    }

    async fn stored_events(
        &mut self,
        keys: &[&EventKey],
        windows: Windows,
    ) -> Result<Vec<Option<StoredEvent>>, StoreError> {
        const DOING: &str = "read events back";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (consumers, ids) = event_keys(keys);
        let read = self
            .query(include_str!("sql/stored_events.sql"))
            .bind(consumers)
            .bind(ids)
            .bind(seconds(windows.events))
            .bind(seconds(windows.answers));
        let found = self.fetch(DOING, read).await?;
        in_order(keys.len(), &found, stored_event).map_err(classify::ours(DOING))
    }

    async fn remove_events(&mut self, keys: &[&EventKey], windows: Windows) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (consumers, ids) = event_keys(keys);
        let remove = Self::planned_anew(include_str!("sql/remove_events.sql"))
            .bind(consumers)
            .bind(ids)
            .bind(seconds(windows.events));
        self.execute("remove events that do not count any more", remove).await
    }

    async fn forget_events(&mut self, keys: &[&EventKey]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (consumers, ids) = event_keys(keys);
        let forget = Self::planned_anew(include_str!("sql/forget_events.sql")).bind(consumers).bind(ids);
        self.execute("forget event keys", forget).await
    }

    async fn revise_events(&mut self, revisions: &[Revision<'_>]) -> Result<(), StoreError> {
        if revisions.is_empty() {
            return Ok(());
        }
        let replies = || revisions.iter().map(|revision| revision.reply.as_ref());
        let (consumers, ids) = event_keys(&revisions.iter().map(|revision| revision.key).collect::<Vec<_>>());
        let revise = self
            .query(include_str!("sql/revise_events.sql"))
            .bind(consumers)
            .bind(ids)
            .bind(revisions.iter().map(|revision| revision.state.as_str()).collect::<Vec<_>>())
            .bind(revisions.iter().map(|revision| rows::status(revision.status)).collect::<Vec<_>>())
            .bind(replies().map(|reply| reply.map(rows::reply_headers)).collect::<Vec<_>>())
            .bind(replies().map(|reply| reply.map(|reply| &*reply.body)).collect::<Vec<_>>());
        self.execute("revise events", revise).await
    }

    async fn insert_keys(&mut self, keys: &[NewKey<'_>]) -> Result<Vec<bool>, StoreError> {
        const DOING: &str = "insert idempotency keys";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let insert = self
            .query(include_str!("sql/insert_keys.sql"))
            .bind(keys.iter().map(|new| new.key.source).collect::<Vec<_>>())
            .bind(keys.iter().map(|new| new.key.key.as_str()).collect::<Vec<_>>())
            .bind(keys.iter().map(|new| new.fingerprint.0).collect::<Vec<_>>());
        let inserted = self.fetch(DOING, insert).await?;
        let keys = keys.iter().map(|new| (new.key.source, new.key.key.as_str()));
        which(keys, &inserted).map_err(classify::ours(DOING))
    }

    async fn stored_keys(
        &mut self,
        keys: &[KeyRef<'_>],
        windows: Windows,
    ) -> Result<Vec<Option<StoredKey>>, StoreError> {
        const DOING: &str = "read idempotency keys back";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (sources, names) = idempotency_keys(keys);
        let read = self
            .query(include_str!("sql/stored_keys.sql"))
            .bind(sources)
            .bind(names)
            .bind(seconds(windows.answers));
        let found = self.fetch(DOING, read).await?;
        in_order(keys.len(), &found, stored_key).map_err(classify::ours(DOING))
    }

    async fn remove_keys(&mut self, keys: &[KeyRef<'_>], windows: Windows) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (sources, names) = idempotency_keys(keys);
        let remove = Self::planned_anew(include_str!("sql/remove_keys.sql"))
            .bind(sources)
            .bind(names)
            .bind(seconds(windows.answers));
        self.execute("remove idempotency keys that have expired", remove).await
    }

    async fn forget_keys(&mut self, keys: &[KeyRef<'_>]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (sources, names) = idempotency_keys(keys);
        let forget = Self::planned_anew(include_str!("sql/forget_keys.sql")).bind(sources).bind(names);
        self.execute("forget idempotency keys", forget).await
    }

    async fn settle_keys(&mut self, answers: &[(KeyRef<'_>, &Reply)]) -> Result<(), StoreError> {
        if answers.is_empty() {
            return Ok(());
        }
        let (sources, names) = idempotency_keys(&answers.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        let settle = self
            .query(include_str!("sql/settle_keys.sql"))
            .bind(sources)
            .bind(names)
            .bind(answers.iter().map(|(_, reply)| rows::status(reply.status)).collect::<Vec<_>>())
            .bind(answers.iter().map(|(_, reply)| rows::reply_headers(reply)).collect::<Vec<_>>())
            .bind(answers.iter().map(|(_, reply)| &*reply.body).collect::<Vec<_>>());
        self.execute("store answers under idempotency keys", settle).await
    }

    async fn entity_sequences(&mut self, entities: &[EntityRef<'_>]) -> Result<Vec<Option<i64>>, StoreError> {
        const DOING: &str = "read entity sequences";
        if entities.is_empty() {
            return Ok(Vec::new());
        }
        let read = self
            .query(include_str!("sql/entity_sequences.sql"))
            .bind(entities.iter().map(|entity| entity.consumer).collect::<Vec<_>>())
            .bind(entities.iter().map(|entity| entity.entity).collect::<Vec<_>>());
        let found = self.fetch(DOING, read).await?;
        in_order(entities.len(), &found, |row| row.try_get("sequence")).map_err(classify::ours(DOING))
    }

    async fn advance_entities(&mut self, entities: &[(EntityRef<'_>, i64)]) -> Result<bool, StoreError> {
        if entities.is_empty() {
            return Ok(true);
        }
        let advance = self
            .query(include_str!("sql/advance_entities.sql"))
            .bind(entities.iter().map(|(entity, _)| entity.consumer).collect::<Vec<_>>())
            .bind(entities.iter().map(|(entity, _)| entity.entity).collect::<Vec<_>>())
            .bind(entities.iter().map(|(_, sequence)| *sequence).collect::<Vec<_>>());
        Ok(self.fetch("advance entities", advance).await?.len() == entities.len())
    }

    async fn try_handlers(
        &mut self,
        source: &Source,
        mask: HandlerMask,
        events: &[FreshEvent<'_>],
    ) -> Result<Option<Vec<HandlerResult>>, StoreError> {
        if events.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let results = handlers::attempt(self, source, mask, events).await;
        self.failed |= !matches!(results, Ok(Some(_)));
        results
    }

    async fn run_handlers(
        &mut self,
        source: &Source,
        mask: HandlerMask,
        events: &[FreshEvent<'_>],
        chunk: usize,
    ) -> Result<Vec<HandlerResult>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let results = handlers::run(self, source, mask, events, chunk).await;
        self.failed |= results.is_err();
        results
    }

    async fn enqueue(&mut self, messages: &[NewMessage<'_>]) -> Result<(), StoreError> {
        if messages.is_empty() {
            return Ok(());
        }
        let enqueue = outbox::enqueue(messages, self.prepared);
        self.execute("write messages into the outbox", enqueue).await
    }

    async fn bury(&mut self, letters: &[NewDeadLetter<'_>]) -> Result<(), StoreError> {
        if letters.is_empty() {
            return Ok(());
        }
        let events = || letters.iter().map(|letter| letter.fresh.event);
        let deliveries = || letters.iter().map(|letter| letter.fresh.delivery);
        let bury = self
            .query(include_str!("sql/bury.sql"))
            .bind(letters.iter().map(|letter| letter.id).collect::<Vec<_>>())
            .bind(events().map(|event| &*event.key.consumer).collect::<Vec<_>>())
            .bind(events().map(|event| &*event.key.event_id).collect::<Vec<_>>())
            .bind(deliveries().map(|delivery| &*delivery.source.name).collect::<Vec<_>>())
            .bind(events().map(|event| &*event.event_type).collect::<Vec<_>>())
            .bind(letters.iter().map(|letter| letter.cause.as_str()).collect::<Vec<_>>())
            .bind(letters.iter().map(|letter| storable(letter.reason)).collect::<Vec<_>>())
            .bind(deliveries().map(|delivery| storable(&delivery.request.target)).collect::<Vec<_>>())
            .bind(
                deliveries().map(|delivery| rows::raw_headers(&delivery.request.headers)).collect::<Vec<_>>(),
            )
            .bind(deliveries().map(|delivery| &*delivery.request.body).collect::<Vec<_>>())
            .bind(deliveries().map(|delivery| delivery.received_at).collect::<Vec<_>>());
        self.execute("keep dead letters", bury).await
    }

    async fn exhume(&mut self, keys: &[&EventKey]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (consumers, ids) = event_keys(keys);
        let exhume = Self::planned_anew(include_str!("sql/exhume.sql")).bind(consumers).bind(ids);
        self.execute("remove the dead letters of applied events", exhume).await
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        if self.failed {
            let reason = "a statement of the transaction has failed";
            return Err(StoreError::new(StoreErrorKind::Unavailable, COMMITTING, reason));
        }
        self.transaction.commit().await.map_err(classify::ours(COMMITTING))
    }
}

/// What many events of a batch have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind<'e> {
    consumer: &'e str,
    source: &'e str,
    pub event_type: &'e str,
    state: EventState,
    status: u16,
}

/// The kinds of a batch, and the place of each event's kind among them, from 1.
pub(super) struct Kinds<'e> {
    pub kinds: Vec<Kind<'e>>,
    pub of_events: Vec<i32>,
}

impl<'e> Kinds<'e> {
    pub fn of(events: &[NewEvent<'e>]) -> Self {
        let mut kinds: Vec<Kind<'e>> = Vec::new();
        let mut places: HashMap<Kind<'e>, i32> = HashMap::new();
        let of_events = events
            .iter()
            .map(|new| {
                let kind = Kind {
                    consumer: &new.event.key.consumer,
                    source: new.source,
                    event_type: &new.event.event_type,
                    state: new.state,
                    status: new.status,
                };
                *places.entry(kind).or_insert_with(|| {
                    kinds.push(kind);
                    i32::try_from(kinds.len()).unwrap_or(i32::MAX)
                })
            })
            .collect();
        Self { kinds, of_events }
    }
}

/// Which of these events were inserted, from the one row that tells.
pub(super) fn inserted(events: &[NewEvent<'_>], row: &PgRow) -> Result<Vec<bool>, sqlx::Error> {
    let count: i64 = row.try_get("inserted")?;
    if usize::try_from(count).is_ok_and(|count| count == events.len()) {
        return Ok(vec![true; events.len()]);
    }
    let texts = |column| row.try_get::<Option<Vec<String>>, _>(column).map(Option::unwrap_or_default);
    let (consumers, event_ids) = (texts("consumers")?, texts("event_ids")?);
    let inserted: HashSet<(&str, &str)> =
        consumers.iter().zip(&event_ids).map(|(consumer, id)| (&**consumer, &**id)).collect();
    let key = |new: &NewEvent<'_>| inserted.contains(&(&*new.event.key.consumer, &*new.event.key.event_id));
    Ok(events.iter().map(key).collect())
}

/// Which of these keys a statement returned.
fn which<'k>(
    keys: impl ExactSizeIterator<Item = (&'k str, &'k str)>,
    returned: &[PgRow],
) -> Result<Vec<bool>, sqlx::Error> {
    // All: the usual case, and no row need be read.
    if returned.len() == keys.len() {
        return Ok(vec![true; keys.len()]);
    }
    let returned: HashSet<(&str, &str)> = returned
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, sqlx::Error>>()?;
    Ok(keys.map(|key| returned.contains(&key)).collect())
}

pub(super) fn stored_event(row: &PgRow) -> Result<StoredEvent, sqlx::Error> {
    let state = EventState::parse(row.try_get("state")?).ok_or_else(|| unreadable("a state"))?;
    let answer_left = Duration::try_from_secs_f64(row.try_get("answer_left")?).unwrap_or_default();
    let age = match (row.try_get("event_lives")?, !answer_left.is_zero()) {
        (true, true) => Age::AnswerLive,
        // It did not take effect, and nothing says so any more.
        (true, false) if state == EventState::Rejected => Age::Expired,
        (true, false) => Age::EventLive,
        (false, _) => Age::Expired,
    };
    Ok(StoredEvent {
        source: row.try_get::<&str, _>("source")?.into(),
        state,
        status: rows::read_status(row)?,
        reply: rows::reply(row)?,
        fingerprint: rows::fingerprint(row)?,
        age,
        answer_left,
    })
}

fn stored_key(row: &PgRow) -> Result<StoredKey, sqlx::Error> {
    Ok(StoredKey {
        fingerprint: rows::fingerprint(row)?.ok_or_else(|| unreadable("a fingerprint"))?,
        reply: rows::reply(row)?.ok_or_else(|| unreadable("an answer"))?,
        live: row.try_get("live")?,
    })
}
