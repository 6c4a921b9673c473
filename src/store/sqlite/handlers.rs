//! Handlers over fresh events: the relation `event`, the statements, the answers they return.
//!
//! Differs from PostgreSQL because every plan runs here by `bisect`: there is no procedural
//! language in the database that could hold the savepoints.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr, Sqlite};

use super::many_rows::{self, MAX_ROWS};
use super::writer::Lease;
use super::{SqliteStore, answers, classify};
use crate::event::{Event, EventKey};
use crate::handler::{HandlerConnection, Step};
use crate::source::{HandlerMask, Source};
use crate::store::bisect::{self, Failure, Replies, Savepoints};
use crate::store::visible_headers::visible_headers;
use crate::store::{FreshEvent, HandlerResult, SqlHandler, StoreError};

const RUNNING: &str = "run a handler";

/// Prepares a handler's statement without running it.
pub(super) async fn check(store: &SqliteStore, handler: &SqlHandler) -> Result<(), StoreError> {
    let checking = classify::handlers("prepare a handler's statement");
    let mut connection = store.readers.acquire().await.map_err(&checking)?;
    let statement = AssertSqlSafe(statement(handler, 1)).into_sql_str();
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
    let mut replies = Replies::new();
    for (at, events) in events.chunks(MAX_ROWS).enumerate() {
        let mut run = sqlx::query(AssertSqlSafe(statement(handler, events.len())));
        for (fresh, ordinal) in events.iter().zip(first + at * MAX_ROWS + 1..) {
            run = bind_row(run, fresh, ordinal, handler);
        }
        let rows = run.fetch_all(&mut *connection).await.map_err(classify::handlers(RUNNING))?;
        if rows.is_empty() {
            continue;
        }
        let given = events.iter().map(|fresh| &*fresh.event.key.event_id).collect();
        let answered = answers::read_all(&rows, &given)?;
        replies.extend(
            answered
                .into_iter()
                .map(|(event_id, reply)| (EventKey { consumer: source.consumer.clone(), event_id }, reply)),
        );
    }
    Ok(replies)
}

/// The handler's statement over an `event` of at least so many rows, with the columns that it can
/// mention: each of the others would cost every event of every batch.
fn statement(handler: &SqlHandler, rows: usize) -> &str {
    let length = many_rows::length(rows);
    handler.compose(length, || {
        let columns: Vec<_> = columns(handler).collect();
        let named: Vec<_> =
            columns.iter().zip(1..).map(|(name, place)| format!("column{place} AS {name}")).collect();
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        format!(
            "event AS MATERIALIZED (\n    SELECT {}\n    FROM (VALUES {})\n    WHERE column1 IS NOT NULL\n)",
            named.join(", "),
            many_rows::repeat(&row, length)
        )
    })
}

/// The columns of `event` that are provided, the one that is never NULL first.
fn columns(handler: &SqlHandler) -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 8] =
        ["ordinal", "type", "occurred_at", "data", "payload", "headers", "source", "received_at"];
    std::iter::once("id").chain(OTHERS.into_iter().filter(|column| handler.mentions(column)))
}

/// Binds a row of `event`. JSON stands as the text that was sent, so that every digit of a number stays.
fn bind_row<'q>(
    run: Query<'q, Sqlite, SqliteArguments>,
    fresh: &FreshEvent<'_>,
    ordinal: usize,
    handler: &SqlHandler,
) -> Query<'q, Sqlite, SqliteArguments> {
    let FreshEvent { event, delivery } = fresh;
    columns(handler).fold(run, |run, column| match column {
        "id" => run.bind(Arc::clone(&event.key.event_id)),
        "ordinal" => run.bind(i64::try_from(ordinal).unwrap_or(i64::MAX)),
        "type" => run.bind(Arc::clone(&event.event_type)),
        "occurred_at" => run.bind(event.occurred_at.map(iso)),
        "data" => run.bind(event.data.as_str()),
        "payload" => run.bind(event.payload.as_str()),
        "headers" => run.bind(visible_headers(&delivery.request)),
        "source" => run.bind(&*delivery.source.name),
        _ => run.bind(iso(delivery.received_at)),
    })
}

fn iso(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}
