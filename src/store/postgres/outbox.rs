//! The outbox: claims, settlements, destinations, and what an operator sees and does.
//!
//! Differs from SQLite because a claim is one statement that takes the rows nobody else has
//! (`SKIP LOCKED`), and because the database can wake who waits (`LISTEN`).

mod read;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnection, PgListener, PgRow};
use sqlx::{PgTransaction, Row};
use uuid::Uuid;

use super::connect::{ASIDE, Query};
use super::rows::{self, seconds, storable};
use super::{PostgresStore, classify};
use crate::store::outbox::{
    AttemptRecord, Backlog, ClaimRequest, Claimed, DestinationState, Lease, MessageFilter, MessageRecord,
    NewMessage, OriginFilter, OutboxHints, OutboxStore, Settled, Settlement,
};
use crate::store::{StoreError, StoreErrorKind};

/// What `hooklatch.enqueue` notifies.
const CHANNEL: &str = "hooklatch_outbox";

/// The verb of [`crate::outbox::enqueue`] and of a batch: writes messages in an open transaction.
pub(crate) fn enqueue<'q>(messages: &'q [NewMessage<'q>], prepared: bool) -> Query<'q> {
    sqlx::query(include_str!("sql/enqueue_messages.sql"))
        .persistent(prepared)
        .bind(messages.iter().map(|message| message.id).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.destination).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.aggregate_id).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.event_type).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.content_type).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.headers).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.payload).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.traceparent).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| hops(message.hops)).collect::<Vec<_>>())
}

/// As [`enqueue`], in a transaction that is not ours.
pub(crate) async fn enqueue_one(
    connection: &mut PgConnection,
    message: NewMessage<'_>,
) -> Result<(), sqlx::Error> {
    enqueue(&[message], true).execute(connection).await.map(drop)
}

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn claim_messages(&self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        let claim = self
            .query(include_str!("sql/claim_messages.sql"))
            .bind(request.destination)
            .bind(count(request.most_new))
            .bind(count(request.most_retries))
            .bind(request.token)
            .bind(seconds(request.lease));
        let doing = "claim messages";
        let found = self.run(doing, claim).await?;
        let mut claimed = read::claimed(&found).map_err(classify::ours(doing))?;
        give_way(self, &mut claimed, request.token).await?;
        Ok(claimed)
    }

    async fn extend_leases(&self, held: &[Lease], lease: Duration) -> Result<Vec<Uuid>, StoreError> {
        let doing = "extend leases";
        let (ids, tokens) = leases(held);
        let extend =
            self.query(include_str!("sql/extend_leases.sql")).bind(ids).bind(tokens).bind(seconds(lease));
        let extended = self.run(doing, extend).await?;
        extended.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn settle_messages(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        settle(self, settlements).await
    }

    async fn release_messages(&self, held: &[Lease]) -> Result<(), StoreError> {
        let (ids, tokens) = leases(held);
        let release = self.query(include_str!("sql/release_messages.sql")).bind(ids).bind(tokens);
        self.run("release messages", release).await.map(drop)
    }

    async fn free_orphans(&self, destination: &str) -> Result<u64, StoreError> {
        let free = self.query(include_str!("sql/free_orphans.sql")).bind(destination);
        self.change("free messages that wait for nothing", free).await
    }

    async fn outbox_hints(&self) -> Result<Option<Box<dyn OutboxHints>>, StoreError> {
        if !self.prepared {
            // Behind a proxy that pools transactions the next server session does not listen.
            return Ok(None);
        }
        let listening = classify::ours("listen for messages");
        // Not one of the pool's: those are for work, and there may be only one.
        let own = PoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.pool.options().get_acquire_timeout())
            .connect_lazy_with((*self.pool.connect_options()).clone());
        let mut listener = PgListener::connect_with(&own).await.map_err(listening)?;
        listener.listen(CHANNEL).await.map_err(listening)?;
        Ok(Some(Box::new(Hints(listener))))
    }

    async fn destination_states(&self) -> Result<Vec<DestinationState>, StoreError> {
        let doing = "read the state of destinations";
        let found = self.run(doing, self.query(include_str!("sql/destination_states.sql"))).await?;
        found.iter().map(read::destination_state).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn pause_destination(&self, name: &str, reason: &str) -> Result<(), StoreError> {
        let pause = self.query(include_str!("sql/pause_destination.sql")).bind(name).bind(storable(reason));
        self.run("pause a destination", pause).await.map(drop)
    }

    async fn resume_destination(&self, name: &str) -> Result<bool, StoreError> {
        let resume = self.query(include_str!("sql/resume_destination.sql")).bind(name);
        self.change("resume a destination", resume).await.map(|rows| rows > 0)
    }

    async fn open_breaker(&self, name: &str, pause: Duration, reason: &str) -> Result<(), StoreError> {
        let open = self
            .query(include_str!("sql/open_breaker.sql"))
            .bind(name)
            .bind(seconds(pause))
            .bind(storable(reason));
        self.run("open a breaker", open).await.map(drop)
    }

    async fn close_breaker(&self, name: &str) -> Result<(), StoreError> {
        let close = self.query(include_str!("sql/close_breaker.sql")).bind(name);
        self.run("close a breaker", close).await.map(drop)
    }

    async fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        let doing = "count the outbox";
        // Planned anew each time: a plan made while the table was small would read all of it.
        let count = sqlx::query(include_str!("sql/backlog.sql")).persistent(false);
        let found = self.run(doing, count).await?;
        found.iter().map(read::backlog).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>, StoreError> {
        let doing = "read the outbox";
        let read = filtered(include_str!("sql/outbox_messages.sql"), filter)
            .bind(filter.after)
            .bind(i64::from(filter.limit));
        let found = self.run(doing, read).await?;
        found.iter().map(read::record).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn count_messages(&self, filter: &MessageFilter) -> Result<u64, StoreError> {
        let doing = "count messages";
        let found = self.run(doing, filtered(include_str!("sql/count_messages.sql"), filter)).await?;
        let count: Result<i64, _> =
            found.first().ok_or(sqlx::Error::RowNotFound).and_then(|row| row.try_get(0));
        count.map(i64::unsigned_abs).map_err(classify::ours(doing))
    }

    async fn messages_of_event(&self, event: &OriginFilter<'_>) -> Result<Vec<MessageRecord>, StoreError> {
        let doing = "read the messages of an event";
        let (first, last) = event.ids();
        let read = self
            .query(include_str!("sql/messages_of_event.sql"))
            .bind(first)
            .bind(last)
            .bind(event.source)
            .bind(event.carried_id())
            .bind(i64::from(event.limit));
        let found = self.run(doing, read).await?;
        found.iter().map(read::record).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn message_payload(&self, id: Uuid) -> Result<Option<Bytes>, StoreError> {
        let doing = "read a message";
        let read = self.query(include_str!("sql/outbox_payload.sql")).bind(id);
        let found = self.run(doing, read).await?;
        let payload = found.first().map(|row| row.try_get::<Vec<u8>, _>(0)).transpose();
        payload.map(|payload| payload.map(Bytes::from)).map_err(classify::ours(doing))
    }

    async fn message_attempts(&self, id: Uuid) -> Result<Vec<AttemptRecord>, StoreError> {
        let doing = "read the attempts of a message";
        let read = self.query(include_str!("sql/outbox_attempts.sql")).bind(id);
        let found = self.run(doing, read).await?;
        found.iter().map(read::attempt).collect::<Result<_, _>>().map_err(classify::ours(doing))
    }

    async fn revive_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        let revive = self.query(include_str!("sql/revive_messages.sql")).bind(ids);
        self.change("try messages again", revive).await
    }

    async fn discard_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError> {
        const DOING: &str = "discard messages";
        let ours = classify::ours(DOING);
        let mut transaction = self.transaction(DOING, ASIDE).await?;
        let discard = self.query(include_str!("sql/discard_messages.sql")).bind(ids);
        let gone = discard.fetch_all(&mut *transaction).await.map_err(ours)?;
        let ids: Vec<Uuid> =
            gone.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>().map_err(ours)?;
        let attempts = self.query(include_str!("sql/discard_attempts.sql")).bind(&ids);
        attempts.execute(&mut *transaction).await.map_err(ours)?;
        unpark(self, &mut transaction, &gone).await.map_err(ours)?;
        transaction.commit().await.map_err(ours)?;
        Ok(ids.len() as u64)
    }
}

impl PostgresStore {
    /// Runs a statement in a transaction of its own and returns its rows.
    async fn run(&self, doing: &'static str, query: Query<'_>) -> Result<Vec<PgRow>, StoreError> {
        let ours = classify::ours(doing);
        let mut transaction = self.transaction(doing, ASIDE).await?;
        let found = query.fetch_all(&mut *transaction).await.map_err(ours)?;
        transaction.commit().await.map_err(ours)?;
        Ok(found)
    }

    /// Runs a statement in a transaction of its own and returns how many rows it changed.
    async fn change(&self, doing: &'static str, query: Query<'_>) -> Result<u64, StoreError> {
        let ours = classify::ours(doing);
        let mut transaction = self.transaction(doing, ASIDE).await?;
        let done = query.execute(&mut *transaction).await.map_err(ours)?;
        transaction.commit().await.map_err(ours)?;
        Ok(done.rows_affected())
    }
}

/// Gives back what was claimed beside another message of its aggregate. After the claim's commit, so that
/// of two claims at the same time the later one sees the other.
async fn give_way(store: &PostgresStore, claimed: &mut Claimed, token: Uuid) -> Result<(), StoreError> {
    let doing = "give way to messages on their way";
    let ordered = claimed.messages.iter().filter(|message| message.aggregate_id.is_some());
    let ordered: Vec<Uuid> = ordered.map(|message| message.id).collect();
    if ordered.is_empty() {
        return Ok(());
    }
    let give_back = store.query(include_str!("sql/yield_messages.sql")).bind(ordered).bind(token);
    let given_back = store.run(doing, give_back).await?;
    let given_back: HashSet<Uuid> = given_back
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()
        .map_err(classify::ours(doing))?;
    claimed.messages.retain(|message| !given_back.contains(&message.id));
    Ok(())
}

async fn settle(store: &PostgresStore, settlements: &[Settlement]) -> Result<Settled, StoreError> {
    const DOING: &str = "settle messages";
    let ours = classify::ours(DOING);
    let all = || settlements.iter();
    let settle = store
        .query(include_str!("sql/settle_messages.sql"))
        .bind(all().map(|s| s.lease.id).collect::<Vec<_>>())
        .bind(all().map(|s| s.lease.token).collect::<Vec<_>>())
        .bind(all().map(|s| s.fate.state().as_str()).collect::<Vec<_>>())
        .bind(all().map(|s| seconds(s.fate.pause())).collect::<Vec<_>>())
        .bind(all().map(|s| s.status.map(rows::status)).collect::<Vec<_>>())
        .bind(all().map(|s| s.error.as_deref().map(storable)).collect::<Vec<_>>())
        .bind(all().map(|s| &*s.answer).collect::<Vec<_>>())
        .bind(all().map(|s| i64::try_from(s.answer_bytes).unwrap_or(i64::MAX)).collect::<Vec<_>>())
        .bind(all().map(|s| i64::try_from(s.latency.as_micros()).unwrap_or(i64::MAX)).collect::<Vec<_>>());
    let mut transaction = store.transaction(DOING, ASIDE).await?;
    let settled = settle.fetch_all(&mut *transaction).await.map_err(ours)?;
    let unparked = unpark(store, &mut transaction, &settled).await.map_err(ours)?;
    transaction.commit().await.map_err(ours)?;
    let ids = settled.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>().map_err(ours)?;
    Ok(Settled { ids, unparked })
}

/// Lets the next message of each aggregate go whose row in `freed` names it. In a statement of its
/// own: it must see what was parked while the one before waited for it.
async fn unpark(
    store: &PostgresStore,
    transaction: &mut PgTransaction<'static>,
    freed: &[PgRow],
) -> Result<bool, sqlx::Error> {
    let mut destinations: Vec<&str> = Vec::new();
    let mut aggregates: Vec<&str> = Vec::new();
    for row in freed {
        if let (Some(destination), Some(aggregate)) =
            (row.try_get("destination")?, row.try_get("aggregate_id")?)
        {
            destinations.push(destination);
            aggregates.push(aggregate);
        }
    }
    if destinations.is_empty() {
        return Ok(false);
    }
    let unpark = store.query(include_str!("sql/unpark_messages.sql")).bind(destinations).bind(aggregates);
    Ok(!unpark.fetch_all(&mut **transaction).await?.is_empty())
}

/// A connection that listens.
struct Hints(PgListener);

#[async_trait]
impl OutboxHints for Hints {
    async fn next(&mut self) -> Result<String, StoreError> {
        const DOING: &str = "listen for messages";
        // Not `recv`: it connects again by itself and tells nothing of what it missed.
        match self.0.try_recv().await {
            Ok(Some(hint)) => Ok(hint.payload().to_owned()),
            Ok(None) => Err(StoreError::new(StoreErrorKind::Unavailable, DOING, "the connection was lost")),
            Err(error) => Err(classify::ours(DOING)(error)),
        }
    }
}

fn leases(held: &[Lease]) -> (Vec<Uuid>, Vec<Uuid>) {
    held.iter().map(|lease| (lease.id, lease.token)).unzip()
}

fn filtered<'q>(sql: &'static str, filter: &'q MessageFilter) -> Query<'q> {
    let states = filter.states.as_ref();
    // Planned for the filter that is set.
    sqlx::query(sql)
        .persistent(false)
        .bind(&filter.destination)
        .bind(states.map(|states| states.iter().map(|state| state.as_str()).collect::<Vec<_>>()))
        .bind(&filter.aggregate_id)
        .bind(&filter.ids)
}

fn hops(hops: u16) -> i16 {
    i16::try_from(hops).unwrap_or(i16::MAX)
}

fn count(messages: usize) -> i64 {
    i64::try_from(messages).unwrap_or(i64::MAX)
}
