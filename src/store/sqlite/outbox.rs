//! The outbox: claims, settlements, destinations, and what an operator sees and does.
//!
//! Differs from PostgreSQL because a claim holds the only connection that writes: nobody else's rows
//! are in the way, and several statements are as good as one. Nothing wakes who waits in another
//! process: relays there poll.

mod read;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::Row;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use uuid::Uuid;

use super::rows::{json, micros, time};
use super::writer::Lease as Writing;
use super::{SqliteStore, classify, connect};
use crate::store::StoreError;
use crate::store::outbox::{
    AttemptRecord, Backlog, ClaimRequest, Claimed, DestinationState, Lease, Message, MessageFilter,
    MessageRecord, MessageState, NewMessage, OriginFilter, OutboxHints, OutboxStore, Settled, Settlement,
    older_than_p95,
};

type Statement<'q> = Query<'q, sqlx::Sqlite, SqliteArguments>;

const CLAIMING: &str = "claim messages";

/// The verb of [`crate::outbox::enqueue`] and of a batch: writes messages in an open transaction.
pub(crate) fn enqueue(messages: &[NewMessage<'_>], now: DateTime<Utc>) -> Statement<'static> {
    let messages: Vec<_> = messages.iter().map(message_row).collect();
    sqlx::query(include_str!("sql/enqueue_messages.sql")).bind(json(&messages)).bind(micros(now))
}

/// As [`enqueue`], in a transaction that is not ours.
pub(crate) async fn enqueue_one(
    connection: &mut SqliteConnection,
    message: NewMessage<'_>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    enqueue(&[message], now).execute(connection).await.map(drop)
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn claim_messages(&self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        claim(self, request).await
    }

    async fn extend_leases(&self, held: &[Lease], lease: Duration) -> Result<Vec<Uuid>, StoreError> {
        let doing = "extend leases";
        let mut writing = self.writer.begin(connect::PATIENCE, None).await?;
        let until = after(self.clock.now(), lease);
        let extend = sqlx::query(include_str!("sql/extend_leases.sql")).bind(leases(held)).bind(until);
        let extended = writing.fetch(doing, extend).await?;
        writing.commit().await?;
        extended
            .iter()
            .map(|row| read::uuid(row, "id"))
            .collect::<Result<_, _>>()
            .map_err(classify::ours(doing))
    }

    async fn settle_messages(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        settle(self, settlements).await
    }

    async fn release_messages(&self, held: &[Lease]) -> Result<(), StoreError> {
        let now = micros(self.clock.now());
        let release = sqlx::query(include_str!("sql/release_messages.sql")).bind(leases(held)).bind(now);
        self.change("release messages", release).await.map(drop)
    }

    async fn free_orphans(&self, destination: &str) -> Result<u64, StoreError> {
        let doing = "free messages that wait for nothing";
        // A look first: there are hardly ever any, and whoever looks need not write.
        let look = sqlx::query(include_str!("sql/first_orphan.sql")).bind(destination);
        if self.read(doing, look).await?.is_empty() {
            return Ok(0);
        }
        let free = sqlx::query(include_str!("sql/free_orphans.sql")).bind(destination);
        self.change(doing, free).await
    }

    async fn outbox_hints(&self) -> Result<Option<Box<dyn OutboxHints>>, StoreError> {
        Ok(None)
    }

    async fn destination_states(&self) -> Result<Vec<DestinationState>, StoreError> {
        let doing = "read the state of destinations";
        let now = self.clock.now();
        let found = self.read(doing, sqlx::query(include_str!("sql/destination_states.sql"))).await?;
        let state = |row| read::destination_state(row, now);
        found.iter().map(state).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn pause_destination(&self, name: &str, reason: &str) -> Result<(), StoreError> {
        let pause = sqlx::query(include_str!("sql/pause_destination.sql"))
            .bind(name)
            .bind(reason)
            .bind(micros(self.clock.now()));
        self.change("pause a destination", pause).await.map(drop)
    }

    async fn resume_destination(&self, name: &str) -> Result<bool, StoreError> {
        let resume = sqlx::query(include_str!("sql/resume_destination.sql")).bind(name);
        self.change("resume a destination", resume).await.map(|rows| rows > 0)
    }

    async fn open_breaker(&self, name: &str, pause: Duration, reason: &str) -> Result<(), StoreError> {
        let until = after(self.clock.now(), pause);
        let open = sqlx::query(include_str!("sql/open_breaker.sql")).bind(name).bind(until).bind(reason);
        self.change("open a breaker", open).await.map(drop)
    }

    async fn close_breaker(&self, name: &str) -> Result<(), StoreError> {
        let close = sqlx::query(include_str!("sql/close_breaker.sql")).bind(name);
        self.change("close a breaker", close).await.map(drop)
    }

    async fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        let doing = "count the outbox";
        let now = self.clock.now();
        let found = self.read(doing, sqlx::query(include_str!("sql/backlog.sql"))).await?;
        let backlog: Result<Vec<_>, _> = found.iter().map(|row| read::backlog(row, now)).collect();
        let mut backlog = backlog.map_err(classify::ours(doing))?;
        // Differs from PostgreSQL, whose one statement does all: here a row cannot say how far to read.
        for waits in backlog.iter_mut().filter(|waits| waits.unsent > 0) {
            waits.age_p95 = self.age_p95(doing, waits, now).await?;
        }
        Ok(backlog)
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>, StoreError> {
        let doing = "read the outbox";
        let read =
            filtered(include_str!("sql/outbox_messages.sql"), filter).bind(filter.after).bind(filter.limit);
        let found = self.read(doing, read).await?;
        found.iter().map(read::record).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn count_messages(&self, filter: &MessageFilter) -> Result<u64, StoreError> {
        let doing = "count messages";
        let found = self.read(doing, filtered(include_str!("sql/count_messages.sql"), filter)).await?;
        let count: Result<i64, _> =
            found.first().ok_or(sqlx::Error::RowNotFound).and_then(|row| row.try_get(0));
        count.map(i64::unsigned_abs).map_err(classify::ours(doing))
    }

    async fn messages_of_event(&self, event: &OriginFilter<'_>) -> Result<Vec<MessageRecord>, StoreError> {
        let doing = "read the messages of an event";
        let (first, last) = event.ids();
        let read = sqlx::query(include_str!("sql/messages_of_event.sql"))
            .bind(first.hyphenated())
            .bind(last.hyphenated())
            .bind(event.source)
            .bind(event.carried_id())
            .bind(event.limit);
        let found = self.read(doing, read).await?;
        found.iter().map(read::record).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn message_payload(&self, id: Uuid) -> Result<Option<Bytes>, StoreError> {
        let doing = "read a message";
        let read = sqlx::query(include_str!("sql/outbox_payload.sql")).bind(id.hyphenated());
        let found = self.read(doing, read).await?;
        let payload = found.first().map(|row| row.try_get::<Vec<u8>, _>(0)).transpose();
        payload.map(|payload| payload.map(Bytes::from)).map_err(classify::ours(doing))
    }

    async fn message_attempts(&self, id: Uuid) -> Result<Vec<AttemptRecord>, StoreError> {
        let doing = "read the attempts of a message";
        let read = sqlx::query(include_str!("sql/outbox_attempts.sql")).bind(id.hyphenated());
        let found = self.read(doing, read).await?;
        found.iter().map(read::attempt).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn revive_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        let now = micros(self.clock.now());
        let revive = sqlx::query(include_str!("sql/revive_messages.sql")).bind(texts(ids)).bind(now);
        self.change("try messages again", revive).await
    }

    async fn discard_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        const DOING: &str = "discard messages";
        let ours = classify::ours(DOING);
        let mut writing = self.writer.begin(connect::PATIENCE, None).await?;
        let now = micros(self.clock.now());
        let discard = sqlx::query(include_str!("sql/discard_messages.sql")).bind(texts(ids)).bind(now);
        let gone = writing.fetch(DOING, discard).await?;
        let ids: Vec<Uuid> =
            gone.iter().map(|row| read::uuid(row, "id")).collect::<Result<_, _>>().map_err(&ours)?;
        let attempts = sqlx::query(include_str!("sql/discard_attempts.sql")).bind(texts(&ids));
        writing.execute(DOING, attempts).await?;
        let freed = gone.iter().map(freed).collect::<Result<Vec<_>, _>>().map_err(ours)?;
        unpark(&mut writing, freed.into_iter().flatten()).await?;
        writing.commit().await?;
        Ok(ids.len() as u64)
    }
}

impl SqliteStore {
    async fn read(&self, doing: &'static str, query: Statement<'_>) -> Result<Vec<SqliteRow>, StoreError> {
        query.fetch_all(&self.readers).await.map_err(classify::ours(doing))
    }

    /// The 95th percentile of the ages of what waits for a destination.
    async fn age_p95(
        &self,
        doing: &'static str,
        waits: &Backlog,
        now: DateTime<Utc>,
    ) -> Result<Duration, StoreError> {
        let older = i64::try_from(older_than_p95(waits.unsent)).unwrap_or(i64::MAX);
        let at = sqlx::query(include_str!("sql/unsent_at.sql")).bind(&waits.destination).bind(older);
        let found = self.read(doing, at).await?;
        // Nothing is there when so much was sent since it was counted.
        let created = found.first().map(|row| time(row, "created_at")).transpose();
        let created = created.map_err(classify::ours(doing))?;
        Ok(created.and_then(|created| (now - created).to_std().ok()).unwrap_or_default())
    }

    /// Runs a statement in a transaction of its own and returns how many rows it changed.
    async fn change(&self, doing: &'static str, query: Statement<'_>) -> Result<u64, StoreError> {
        let mut writing = self.writer.begin(connect::PATIENCE, None).await?;
        let changed = writing.execute(doing, query).await?;
        writing.commit().await?;
        Ok(changed)
    }
}

async fn claim(store: &SqliteStore, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
    let ours = classify::ours(CLAIMING);
    let due = |now| {
        sqlx::query(include_str!("sql/due_messages.sql"))
            .bind(request.destination)
            .bind(count(request.most_new))
            .bind(count(request.most_retries))
            .bind(micros(now))
    };
    // A look first: most claims of an idle relay find nothing, and need not write.
    if store.read(CLAIMING, due(store.clock.now())).await?.is_empty() {
        return Ok(Claimed::default());
    }
    let mut writing = store.writer.begin(connect::PATIENCE, None).await?;
    let now = store.clock.now();
    let found = writing.fetch(CLAIMING, due(now)).await?;
    let mut claimed = Claimed::default();
    let (mut park, mut take): (Vec<i64>, Vec<i64>) = Default::default();
    for row in &found {
        let sequence = row.try_get("sequence").map_err(&ours)?;
        if row.try_get("waits").map_err(&ours)? {
            park.push(sequence);
        } else if !row.try_get::<bool, _>("overtaken").map_err(&ours)? {
            take.push(sequence);
            claimed.expired += u64::from(row.try_get::<bool, _>("expired").map_err(&ours)?);
        }
    }
    claimed.parked = park.len();
    if !park.is_empty() {
        let park = sqlx::query(include_str!("sql/park_messages.sql")).bind(json(&park));
        writing.execute(CLAIMING, park).await?;
    }
    if !take.is_empty() {
        let take = sqlx::query(include_str!("sql/claim_messages.sql"))
            .bind(json(&take))
            .bind(request.token.hyphenated())
            .bind(after(now, request.lease));
        let taken = writing.fetch(CLAIMING, take).await?;
        let mut messages: Vec<(i64, Message)> =
            taken.iter().filter_map(|row| read::readable(row, now)).collect();
        messages.sort_by_key(|(sequence, _)| *sequence);
        claimed.messages = messages.into_iter().map(|(_, message)| message).collect();
    }
    writing.commit().await?;
    Ok(claimed)
}

async fn settle(store: &SqliteStore, settlements: &[Settlement]) -> Result<Settled, StoreError> {
    const DOING: &str = "settle messages";
    let ours = classify::ours(DOING);
    let mut writing = store.writer.begin(connect::PATIENCE, None).await?;
    let now = store.clock.now();
    let results: Vec<_> = settlements.iter().map(|settlement| settlement_row(settlement, now)).collect();
    let settle = sqlx::query(include_str!("sql/settle_messages.sql")).bind(json(&results)).bind(micros(now));
    let rows = writing.fetch(DOING, settle).await?;
    let mut settled = Settled::default();
    let (mut notes, mut freed) = (Vec::new(), Vec::new());
    for row in &rows {
        let id = read::uuid(row, "id").map_err(&ours)?;
        let attempt: u32 = row.try_get("attempts").map_err(&ours)?;
        let state = MessageState::parse(row.try_get("state").map_err(&ours)?);
        // Not a result that came too late of whoever held it before.
        let is_of = |result: &&Settlement| result.lease.id == id && Some(result.fate.state()) == state;
        let settlement = settlements.iter().find(is_of);
        if let Some(settlement) = settlement.filter(|settlement| settlement.error.is_some()) {
            notes.push(attempt_row(settlement, attempt));
        }
        if matches!(state, Some(MessageState::Sent | MessageState::Dead)) {
            freed.extend(self::freed(row).map_err(&ours)?);
        }
        settled.ids.push(id);
    }
    if !notes.is_empty() {
        let note = sqlx::query(include_str!("sql/note_attempts.sql")).bind(json(&notes)).bind(micros(now));
        writing.execute(DOING, note).await?;
    }
    settled.unparked = unpark(&mut writing, freed).await?;
    writing.commit().await?;
    Ok(settled)
}

/// Destination and aggregate of a row, when it has one.
fn freed(row: &SqliteRow) -> Result<Option<(String, String)>, sqlx::Error> {
    let aggregate: Option<String> = row.try_get("aggregate_id")?;
    let destination = row.try_get("destination")?;
    Ok(aggregate.map(|aggregate| (destination, aggregate)))
}

/// Lets the next message of each of these aggregates go.
async fn unpark(
    writing: &mut Writing,
    freed: impl IntoIterator<Item = (String, String)>,
) -> Result<bool, StoreError> {
    let freed: Vec<_> = freed.into_iter().collect();
    if freed.is_empty() {
        return Ok(false);
    }
    let unpark = sqlx::query(include_str!("sql/unpark_messages.sql")).bind(json(&freed));
    Ok(!writing.fetch("unpark messages", unpark).await?.is_empty())
}

fn message_row(message: &NewMessage<'_>) -> serde_json::Value {
    json!({
        "id": message.id,
        "destination": message.destination,
        "aggregate_id": message.aggregate_id,
        "event_type": message.event_type,
        "content_type": message.content_type,
        "headers": message.headers,
        "payload": hex::encode(message.payload),
        "traceparent": message.traceparent,
        "hops": message.hops,
    })
}

fn settlement_row(settlement: &Settlement, now: DateTime<Utc>) -> serde_json::Value {
    json!({
        "id": settlement.lease.id,
        "token": settlement.lease.token,
        "state": settlement.fate.state().as_str(),
        "next": after(now, settlement.fate.pause()),
        "status": settlement.status,
        "error": settlement.error,
        "answer_bytes": settlement.answer_bytes,
    })
}

fn attempt_row(settlement: &Settlement, attempt: u32) -> serde_json::Value {
    json!({
        "id": settlement.lease.id,
        "attempt": attempt,
        "latency_us": i64::try_from(settlement.latency.as_micros()).unwrap_or(i64::MAX),
        "status": settlement.status,
        "error": settlement.error,
        "answer": hex::encode(&settlement.answer),
        "answer_bytes": settlement.answer_bytes,
    })
}

fn leases(held: &[Lease]) -> String {
    let held: Vec<_> = held.iter().map(|lease| (lease.id, lease.token)).collect();
    json(&held)
}

fn texts(ids: &[Uuid]) -> String {
    json(ids)
}

fn filtered<'q>(sql: &'static str, filter: &'q MessageFilter) -> Statement<'q> {
    let states = filter.states.as_ref();
    sqlx::query(sql)
        .bind(&filter.destination)
        .bind(states.map(|states| json(&states.iter().map(|state| state.as_str()).collect::<Vec<_>>())))
        .bind(&filter.aggregate_id)
        .bind(filter.ids.as_deref().map(texts))
}

fn after(now: DateTime<Utc>, pause: Duration) -> i64 {
    micros(now).saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
}

fn count(messages: usize) -> i64 {
    i64::try_from(messages).unwrap_or(i64::MAX)
}
