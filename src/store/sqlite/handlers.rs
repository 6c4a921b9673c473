//! Handlers over fresh events: the relation `event`, the statements, the answers they return.
//!
//! Differs from PostgreSQL because every plan runs here by `bisect`: there is no procedural
//! language in the database that could hold the savepoints.

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

use super::writer::Lease;
use super::{SqliteStore, answers, classify, rows};
use crate::event::{Event, EventKey};
use crate::handler::{HandlerConnection, Step};
use crate::source::{HandlerMask, Source};
use crate::store::bisect::{self, Failure, Replies, Savepoints};
use crate::store::visible_headers::visible_headers;
use crate::store::{FreshEvent, HandlerResult, SqlHandler, StoreError};

const RUNNING: &str = "run a handler";

/// The relation `event`, read from the JSON that [`EventRow`]s make.
const EVENT_CTE: &str = include_str!("sql/event_cte.sql");

/// Prepares a handler's statement without running it.
pub(super) async fn check(store: &SqliteStore, handler: &SqlHandler) -> Result<(), StoreError> {
    let checking = classify::handlers("prepare a handler's statement");
    let mut connection = store.readers.acquire().await.map_err(&checking)?;
    let statement = AssertSqlSafe(statement(handler)).into_sql_str();
    connection.prepare(statement).await.map(drop).map_err(checking)
}

/// Runs the handlers over all events, outside any savepoint: the way of a batch in which nothing fails.
/// `None`: something did.
pub(super) async fn attempt(
    lease: &mut Lease,
    source: &Source,
    mask: HandlerMask,
    events: &[FreshEvent<'_>],
) -> Result<Option<Vec<HandlerResult>>, StoreError> {
    if events.is_empty() {
        return Ok(Some(Vec::new()));
    }
    bisect::apply_all(&mut Plan { lease, source, mask, events }, events).await
}

/// Runs the handlers of `mask` over `events`, each event whole or not at all.
pub(super) async fn run(
    lease: &mut Lease,
    source: &Source,
    mask: HandlerMask,
    events: &[FreshEvent<'_>],
    chunk: usize,
) -> Result<Vec<HandlerResult>, StoreError> {
    bisect::apply_each(&mut Plan { lease, source, mask, events }, events, chunk).await
}

/// The steps of a plan, in a batch's transaction.
struct Plan<'p> {
    lease: &'p mut Lease,
    source: &'p Source,
    mask: HandlerMask,
    /// Of which a chunk is a part.
    events: &'p [FreshEvent<'p>],
}

#[async_trait]
impl Savepoints for Plan<'_> {
    async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.lease.execute("set a savepoint", sqlx::query("SAVEPOINT chunk")).await.map(drop)
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        let undo = sqlx::query("ROLLBACK TO chunk; RELEASE chunk");
        self.lease.execute("undo a handler", undo).await.map(drop)
    }

    async fn keep(&mut self) -> Result<(), StoreError> {
        self.lease.execute("release a savepoint", sqlx::query("RELEASE chunk")).await.map(drop)
    }

    async fn apply(&mut self, events: &[FreshEvent<'_>]) -> Result<Replies, Failure> {
        let mut replies = Replies::new();
        let first = self.events.iter().position(|fresh| std::ptr::eq(fresh.event, events[0].event));
        for binding in self.source.planned(self.mask) {
            let connection = self.lease.statement();
            replies.extend(match &binding.step {
                Step::Sql(handler) => {
                    run_sql(connection, handler, self.source, events, first.unwrap_or_default()).await?
                }
                // The batch's matter, when all others have succeeded.
                Step::Forward(_) => Vec::new(),
                Step::Code(handler) => {
                    let events: Vec<&Event> = events.iter().map(|fresh| fresh.event).collect();
                    handler
                        .apply(HandlerConnection::Sqlite(connection), &events)
                        .await
                        .map_err(|error| Failure::of_handler(error, classify::handlers(RUNNING)))?
                }
            });
        }
        Ok(replies)
    }
}

async fn run_sql(
    connection: &mut SqliteConnection,
    handler: &SqlHandler,
    source: &Source,
    events: &[FreshEvent<'_>],
    first: usize,
) -> Result<Replies, Failure> {
    let rows: Vec<_> = events
        .iter()
        .zip(first + 1..)
        .map(|(fresh, ordinal)| EventRow::new(fresh, ordinal, handler))
        .collect();
    let answers = sqlx::query(AssertSqlSafe(statement(handler)))
        .bind(rows::json(&rows))
        .fetch_all(connection)
        .await
        .map_err(classify::handlers(RUNNING))?;
    let mut replies = Replies::new();
    for row in &answers {
        if let Some((event_id, reply)) = answers::read(row)? {
            replies.push((EventKey { consumer: source.consumer.clone(), event_id }, reply));
        }
    }
    Ok(replies)
}

/// The handler's statement over `event`.
fn statement(handler: &SqlHandler) -> &str {
    handler.compose(|| EVENT_CTE.into())
}

/// A row of `event`. JSON stands as the text that was sent, so that every digit of a number stays.
/// What is left out is NULL.
#[derive(Serialize)]
struct EventRow<'e> {
    ordinal: usize,
    id: &'e str,
    #[serde(rename = "type")]
    event_type: &'e str,
    occurred_at: Option<String>,
    source: &'e str,
    received_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<String>,
}

impl<'e> EventRow<'e> {
    fn new(fresh: &FreshEvent<'e>, ordinal: usize, handler: &SqlHandler) -> Self {
        let FreshEvent { event, delivery } = fresh;
        Self {
            ordinal,
            id: &event.key.event_id,
            event_type: &event.event_type,
            occurred_at: event.occurred_at.map(iso),
            source: &delivery.source.name,
            received_at: iso(delivery.received_at),
            data: handler.mentions("data").then(|| event.data.as_str()),
            payload: handler.mentions("payload").then(|| event.payload.as_str()),
            headers: handler.mentions("headers").then(|| visible_headers(&delivery.request)),
        }
    }
}

fn iso(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}
