//! Handlers over fresh events: the relation `event`, the statements, the answers they return.
//!
//! A plan of SQL alone is one round trip: the function `hooklatch.run_handlers` holds the
//! subtransactions and halves a chunk that fails. Differs from SQLite there, where no language in
//! the database could. A plan with Rust code in it runs by `bisect`.

use std::collections::HashMap;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::batch::PostgresBatch;
use super::connect::{ASIDE, Query};
use super::rows::unreadable;
use super::{PostgresStore, classify};
use crate::event::{Event, EventKey};
use crate::handler::{HandlerConnection, HandlerReply, Step};
use crate::source::{HandlerMask, Source};
use crate::store::bisect::{self, Failure, Replies, Savepoints};
use crate::store::handler_answer;
use crate::store::visible_headers::visible_headers;
use crate::store::{FreshEvent, HandlerResult, SqlHandler, StoreError};

const RUNNING: &str = "run handlers";
const CHECKING: &str = "prepare a handler's statement";

/// The columns of `event` that come as an array: name, how it is read, the array's parameter and type.
/// The parameters are those that `hooklatch.run_handlers` passes.
const ARRIVED: [(&str, &str, &str); 7] = [
    ("id", "arrived.id", "$1::text[]"),
    ("type", "arrived.type", "$2::text[]"),
    ("occurred_at", "arrived.occurred_at", "$3::timestamptz[]"),
    ("data", "arrived.data::jsonb", "$4::text[]"),
    ("payload", "arrived.payload::jsonb", "$5::text[]"),
    ("headers", "arrived.headers::jsonb", "$6::text[]"),
    ("received_at", "arrived.received_at", "$7::timestamptz[]"),
];

/// What an event is counted by when a statement takes it up: `hooklatch.run_handlers` learns how far a
/// statement came that failed.
const COUNTED: &str = "nextval('hooklatch.progress') > 0";

/// The shapes of a statement: prepared and run as it is; run by a function that must learn how far it came; and
/// the call of a function of the session that holds the latter.
const PLAIN: usize = 0;
const WATCHED: usize = 1;
const CALLED: usize = 2;

/// The rows that a statement returns, as `hooklatch.run_handlers` reads them.
const SELECT_ANSWERS: &str = include_str!("sql/select_answers.sql");

/// The SQLSTATE of `hooklatch.mistake_in_answers`, whose message says all.
const MISTAKE_IN_ANSWERS: &str = "WH001";

/// Plans a handler's statement, which finds what EXECUTE would find, without running it.
pub(super) async fn check(store: &PostgresStore, handler: &SqlHandler) -> Result<(), StoreError> {
    let failed = classify::handlers(CHECKING);
    let none: Vec<&str> = Vec::new();
    let times: Vec<chrono::DateTime<chrono::Utc>> = Vec::new();
    // Safe: the statement is the operator's own, from the configuration.
    let plan = AssertSqlSafe(format!("EXPLAIN {}", watched(handler)));
    let plan = sqlx::query(plan)
        .persistent(false)
        .bind(&none)
        .bind(&none)
        .bind(&times)
        .bind(&none)
        .bind(&none)
        .bind(&none)
        .bind(&times)
        .bind("")
        .bind(1_i32);
    let mut transaction = store.transaction(CHECKING, ASIDE).await?;
    plan.execute(&mut *transaction).await.map_err(failed)?;
    transaction.rollback().await.map_err(failed)
}

/// Runs the handlers of `mask` over `events`, each event whole or not at all.
pub(super) async fn run(
    batch: &mut PostgresBatch,
    source: &Source,
    mask: HandlerMask,
    events: &[FreshEvent<'_>],
    chunk: usize,
) -> Result<Vec<HandlerResult>, StoreError> {
    let sql: Option<Vec<&SqlHandler>> = source
        .planned(mask)
        .filter_map(|binding| match &binding.step {
            Step::Sql(handler) => Some(Some(&**handler)),
            Step::Code(_) => Some(None),
            // The batch's matter, when all others have succeeded.
            Step::Forward(_) => None,
        })
        .collect();
    match sql {
        Some(handlers) => run_sql(batch, &handlers, source, events, chunk).await,
        None => bisect::apply_each(&mut Plan { batch, source, mask }, events, chunk).await,
    }
}

/// Runs the statements of `mask` over all events, prepared and outside any subtransaction: the way of
/// a batch in which nothing fails, at a fraction of the cost. `None`: something did.
pub(super) async fn attempt(
    batch: &mut PostgresBatch,
    source: &Source,
    mask: HandlerMask,
    events: &[FreshEvent<'_>],
) -> Result<Option<Vec<HandlerResult>>, StoreError> {
    let mut plain = Vec::new();
    for binding in source.planned(mask) {
        match &binding.step {
            Step::Sql(handler) if !handler.returns_rows() => plain.push(handler),
            // Answers are checked by the function; Rust code may be called again with fewer events.
            Step::Sql(_) | Step::Code(_) => {
                return run(batch, source, mask, events, events.len()).await.map(Some);
            }
            Step::Forward(_) => {}
        }
    }
    for handler in plain {
        // Safe: the statement is the operator's own, from the configuration.
        let statement = handler.compose(PLAIN, || event_cte(handler, None));
        let run = sqlx::query(AssertSqlSafe(statement)).persistent(batch.prepared);
        let run =
            bind_columns(run, events, |column| handler.mentions(column)).bind(&*source.name).bind(1_i32);
        match run.execute(&mut *batch.transaction).await {
            Ok(_) => {}
            Err(error) if classify::may_be_one_event(&error) => return Ok(None),
            Err(error) => return Err(classify::handlers(RUNNING)(error)),
        }
    }
    Ok(Some(events.iter().map(|_| HandlerResult::Applied(None)).collect()))
}

/// Runs statements over events, in one round trip.
async fn run_sql(
    batch: &mut PostgresBatch,
    handlers: &[&SqlHandler],
    source: &Source,
    events: &[FreshEvent<'_>],
    chunk: usize,
) -> Result<Vec<HandlerResult>, StoreError> {
    let failed = classify::handlers(RUNNING);
    let mentioned = |column: &str| handlers.iter().any(|handler| handler.mentions(column));
    let run = batch
        .query(include_str!("sql/run_handlers.sql"))
        .bind(handlers.iter().map(|handler| watched(handler)).collect::<Vec<_>>())
        .bind(handlers.iter().map(|handler| handler.returns_rows()).collect::<Vec<_>>())
        .bind(i32::try_from(chunk).unwrap_or(i32::MAX))
        .bind(&*source.name);
    let run = bind_columns(run, events, mentioned);
    let told = run.fetch_all(&mut *batch.transaction).await.map_err(failed)?;
    results(events, &told).map_err(classify::ours(RUNNING))
}

/// Binds the arrays of [`ARRIVED`], in their order. A column that no statement mentions is NULL: nothing
/// to send, nothing to parse.
pub(super) fn bind_columns<'q>(
    run: Query<'q>,
    events: &[FreshEvent<'q>],
    mentioned: impl Fn(&str) -> bool,
) -> Query<'q> {
    let text = |name: &str, read: fn(&Event) -> &str| -> Option<Vec<&'q str>> {
        mentioned(name).then(|| events.iter().map(|fresh| read(fresh.event)).collect())
    };
    run.bind(events.iter().map(|fresh| &*fresh.event.key.event_id).collect::<Vec<_>>())
        .bind(text("type", |event| &event.event_type))
        .bind(
            mentioned("occurred_at")
                .then(|| events.iter().map(|fresh| fresh.event.occurred_at).collect::<Vec<_>>()),
        )
        .bind(text("data", |event| event.data.as_str()))
        .bind(text("payload", |event| event.payload.as_str()))
        .bind(mentioned("headers").then(|| headers(events)))
        .bind(
            mentioned("received_at")
                .then(|| events.iter().map(|fresh| fresh.delivery.received_at).collect::<Vec<_>>()),
        )
}

/// The handler's statement over `event`, for the functions `hooklatch.run_handlers` and
/// `hooklatch.apply_events`. Rows that it returns are answers,
/// and come as one array: far cheaper than a loop over them in the function.
pub(super) fn watched(handler: &SqlHandler) -> &str {
    let event = || event_cte(handler, Some(COUNTED));
    if handler.returns_rows() {
        handler.compose_select(WATCHED, event, "hooklatch_answer", SELECT_ANSWERS)
    } else {
        handler.compose(WATCHED, event)
    }
}

/// The call of the function that [`function_of`] defines: stands for [`watched`] where that returns no rows.
pub(super) fn called(handler: &SqlHandler) -> &str {
    handler.stand_in(CALLED, || {
        format!("SELECT pg_temp.{}($1, $2, $3, $4, $5, $6, $7, $8, $9)", function_name(handler))
    })
}

/// Whether an event failed because the session has no such function as [`called`] calls.
pub(super) fn is_missing_function(code: &str, message: &str) -> bool {
    // undefined_function, in whatever language the server says so
    code == "42883" && message.contains("pg_temp.hooklatch_")
}

/// Defines a function of the session whose body is the handler's statement, with the same parameters.
pub(super) fn function_of(handler: &SqlHandler) -> String {
    let (name, statement) = (function_name(handler), watched(handler));
    // The line break ends a comment that may stand there. What looks like a variable of the language
    // (`found`) is a column.
    format!(
        "CREATE OR REPLACE FUNCTION pg_temp.{name}(\n    \
             text[], text[], timestamptz[], text[], text[], text[], timestamptz[], text, integer\n\
         ) RETURNS void LANGUAGE plpgsql AS ${name}$\n\
         #variable_conflict use_column\nBEGIN\n{statement}\n;\nEND\n${name}$"
    )
}

/// Another statement has another name.
fn function_name(handler: &SqlHandler) -> String {
    const NAME_BYTES: usize = 16;
    format!("hooklatch_{}", hex::encode(&Sha256::digest(watched(handler))[..NAME_BYTES]))
}

/// The relation `event` with the columns that the handler can mention: each of the others would cost
/// every event of every batch. MATERIALIZED, so that JSON is parsed once however often it is looked at.
/// `condition`: which of what has arrived is in it.
pub(super) fn event_cte(handler: &SqlHandler, condition: Option<&str>) -> String {
    // There is a row for each id, so they always come.
    let arrived = || ARRIVED.iter().filter(|(name, ..)| *name == "id" || handler.mentions(name));
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    let mut columns = list(&mut arrived().map(|(name, read, _)| format!("{read} AS {name}")));
    let mut names = list(&mut arrived().map(|(name, ..)| (*name).to_owned()));
    let arrays = list(&mut arrived().map(|(.., array)| (*array).to_owned()));
    let mut ordinality = "";
    if handler.mentions("ordinal") {
        columns.push_str(", $9::integer - 1 + arrived.place AS ordinal");
        names.push_str(", place");
        ordinality = " WITH ORDINALITY";
    }
    if handler.mentions("source") {
        columns.push_str(", $8::text AS source");
    }
    let condition = condition.map(|condition| format!("\n    WHERE {condition}")).unwrap_or_default();
    format!(
        "event AS MATERIALIZED (\n    SELECT {columns}\n    FROM unnest({arrays}){ordinality} AS arrived ({names}){condition}\n)"
    )
}

/// What became of each event, from the rows that tell what was not plain success.
fn results(events: &[FreshEvent<'_>], told: &[PgRow]) -> Result<Vec<HandlerResult>, sqlx::Error> {
    let mut results: Vec<_> = events.iter().map(|_| HandlerResult::Applied(None)).collect();
    if told.is_empty() {
        return Ok(results);
    }
    let places: HashMap<&str, usize> =
        events.iter().enumerate().map(|(place, fresh)| (&*fresh.event.key.event_id, place)).collect();
    for row in told {
        let (place, result) = match row.try_get::<Option<&str>, _>("code")? {
            Some(code) => {
                let place = usize::try_from(row.try_get::<i32, _>("ordinal")? - 1).ok();
                let (permanent, reason) = failure(code, row.try_get("message")?);
                (place, HandlerResult::Failed { permanent, reason })
            }
            None => {
                let place = places.get(row.try_get::<&str, _>("event_id")?).copied();
                (place, HandlerResult::Applied(Some(reply(row)?)))
            }
        };
        let place = place.and_then(|place| results.get_mut(place));
        *place.ok_or_else(|| unreadable("an event of a handler's result"))? = result;
    }
    Ok(results)
}

/// Whether a handler's failure is permanent, and its reason.
pub(super) fn failure(code: &str, message: &str) -> (bool, String) {
    let reason = match code {
        MISTAKE_IN_ANSWERS => message.to_owned(),
        _ => format!("{message} (SQLSTATE {code})"),
    };
    (classify::is_permanent(code), reason)
}

/// The answer that a statement returned for an event. The function has checked that it is one.
fn reply(row: &PgRow) -> Result<HandlerReply, sqlx::Error> {
    let headers: Option<&str> = row.try_get("headers")?;
    let headers = headers.map_or_else(|| Ok(Vec::new()), handler_answer::headers);
    Ok(HandlerReply {
        status: row.try_get::<Option<i32>, _>("status")?.and_then(|status| u16::try_from(status).ok()),
        headers: headers.map_err(|_| unreadable("the headers of a handler's answer"))?,
        body: row.try_get::<Option<String>, _>("body")?.map(String::into_bytes),
    })
}

/// Each event's request headers as a JSON object, without what is for us alone.
fn headers(events: &[FreshEvent<'_>]) -> Vec<String> {
    let mut of_deliveries: HashMap<uuid::Uuid, String> = HashMap::new();
    events
        .iter()
        .map(|fresh| {
            let delivery = fresh.delivery;
            of_deliveries.entry(delivery.id).or_insert_with(|| visible_headers(&delivery.request)).clone()
        })
        .collect()
}

/// The steps of a plan with Rust code in it, in a batch's transaction.
struct Plan<'p> {
    batch: &'p mut PostgresBatch,
    source: &'p Source,
    mask: HandlerMask,
}

#[async_trait]
impl Savepoints for Plan<'_> {
    async fn savepoint(&mut self) -> Result<(), StoreError> {
        // As in run_handlers: a handler waits for locks as long as its statement may run, and
        // constraints are checked at the end of the chunk.
        self.execute("SAVEPOINT chunk; SET LOCAL lock_timeout = 0; SET CONSTRAINTS ALL DEFERRED").await
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        self.execute("ROLLBACK TO SAVEPOINT chunk; RELEASE SAVEPOINT chunk").await
    }

    async fn keep(&mut self) -> Result<(), StoreError> {
        let lock_wait = super::connect::milliseconds(self.batch.limits.lock_wait);
        let keep = format!("RELEASE SAVEPOINT chunk; SET LOCAL lock_timeout = {lock_wait}");
        // Safe: our own words and a number.
        let kept = self.batch.transaction.execute(sqlx::raw_sql(AssertSqlSafe(keep))).await;
        kept.map(drop).map_err(classify::ours(RUNNING))
    }

    async fn apply(&mut self, events: &[FreshEvent<'_>]) -> Result<Replies, Failure> {
        let mut replies = Replies::new();
        for binding in self.source.planned(self.mask) {
            replies.extend(match &binding.step {
                Step::Sql(handler) => self.run_sql(handler, events).await?,
                Step::Forward(_) => continue,
                Step::Code(handler) => {
                    let events: Vec<&Event> = events.iter().map(|fresh| fresh.event).collect();
                    let connection = HandlerConnection::Postgres(&mut self.batch.transaction);
                    let applied = handler.apply(connection, &events).await;
                    applied.map_err(|error| Failure::of_handler(error, classify::handlers(RUNNING)))?
                }
            });
        }
        match self.batch.transaction.execute("SET CONSTRAINTS ALL IMMEDIATE").await {
            Ok(_) => Ok(replies),
            Err(error) if classify::is_aborted(&error) => Err(Failure::Event {
                permanent: false,
                reason: "the handler went on after a database error, which had undone its work".to_owned(),
            }),
            Err(error) => Err(classify::handlers(RUNNING)(error).into()),
        }
    }
}

impl Plan<'_> {
    async fn execute(&mut self, statements: &'static str) -> Result<(), StoreError> {
        let done = self.batch.transaction.execute(sqlx::raw_sql(statements)).await;
        done.map(drop).map_err(classify::ours(RUNNING))
    }

    /// One SQL step of a mixed plan: it counts whole or not at all, and the chunk with it.
    async fn run_sql(
        &mut self,
        handler: &SqlHandler,
        events: &[FreshEvent<'_>],
    ) -> Result<Vec<(EventKey, HandlerReply)>, Failure> {
        let results = run_sql(self.batch, &[handler], self.source, events, events.len()).await?;
        let mut replies = Vec::new();
        for (fresh, result) in events.iter().zip(results) {
            match result {
                HandlerResult::Applied(None) => {}
                HandlerResult::Applied(Some(reply)) => replies.push((fresh.event.key.clone(), reply)),
                HandlerResult::Failed { permanent, reason } => {
                    return Err(Failure::Event { permanent, reason });
                }
            }
        }
        Ok(replies)
    }
}
