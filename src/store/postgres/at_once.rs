//! A plain batch in one statement: keys in, handler run, committed.
//!
//! Nearly always the statement is the handler's own, with the keys' insert before it: prepared, all or
//! nothing. Where a failure must be expected, it is a call of `hooklatch.apply_events`, which leaves out what
//! fails; that is kept by a second statement, with its dead letters.
//!
//! These stand outside any explicit transaction, so their time limits are the session's: they are
//! set when a connection is made, which holds only where no proxy pools transactions. Elsewhere
//! there is no such way. SQLite has none: a statement there costs no trip over a network.

use std::collections::HashSet;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};

use super::batch::{Kinds, inserted, stored_event};
use super::connect::Query;
use super::rows::{self, storable, unreadable};
use super::{PostgresStore, classify, handlers};
use crate::event::{EventKey, Fingerprint};
use crate::store::{
    AtOnce, EventAtOnce, FreshEvent, NewEvent, Rejection, SqlHandler, StoreError, StoreErrorKind,
    StoredEvent, Windows,
};

const APPLYING: &str = "apply a batch";
const READING: &str = "read events back";
const REJECTING: &str = "keep rejected events";

/// The insert of the keys, in sorted order, so that two replicas cannot deadlock.
const INSERTED: &str = include_str!("sql/inserted_cte.sql");

/// Which events were new, told only when some were not.
const SELECT_INSERTED: &str = include_str!("sql/select_inserted.sql");

/// What makes an event one that the handler sees: nearly always all are new, and nothing is looked up.
const IS_NEW: &str = "(SELECT count(*) FROM hooklatch_inserted) = cardinality($1) \
                      OR arrived.id IN (SELECT event_id FROM hooklatch_inserted)";

pub(super) async fn apply(
    store: &PostgresStore,
    events: &[NewEvent<'_>],
    fresh: &[FreshEvent<'_>],
    handler: &SqlHandler,
    chunk: Option<usize>,
) -> Result<AtOnce, StoreError> {
    if !store.has_session_limits {
        return Ok(AtOnce::Unsupported);
    }
    let done = match chunk {
        Some(chunk) => {
            let call = |has_function: bool| {
                let statement =
                    if has_function { handlers::called(handler) } else { handlers::watched(handler) };
                careful(events, fresh, handler, statement, chunk)
            };
            run(store, Some(handler), call).await.and_then(|told| fates(events.len(), &told))
        }
        None => {
            let Some(statement) = trusting(handler) else { return Ok(AtOnce::Unsupported) };
            // Safe: the statement is the operator's own, from the configuration.
            let call = |_| bind(sqlx::query(AssertSqlSafe(statement)), events, fresh, handler);
            let told = run(store, None, call).await;
            told.and_then(|told| inserted(events, told.first().ok_or(sqlx::Error::RowNotFound)?)).map(|new| {
                new.into_iter()
                    .map(|new| if new { EventAtOnce::Applied } else { EventAtOnce::Known })
                    .collect()
            })
        }
    };
    match done.map_err(classify::handlers(APPLYING)) {
        Ok(fates) => Ok(AtOnce::Committed(fates)),
        Err(error) if matches!(error.kind, StoreErrorKind::Data | StoreErrorKind::Statement) => {
            Ok(AtOnce::HandlerFailed)
        }
        Err(error) => Err(error),
    }
}

/// Reads events back that a call of `apply` found there.
pub(super) async fn stored(
    store: &PostgresStore,
    keys: &[&EventKey],
    windows: Windows,
) -> Result<Vec<Option<StoredEvent>>, StoreError> {
    let read = |_| {
        let (consumers, ids) = rows::event_keys(keys);
        sqlx::query(include_str!("sql/stored_events.sql"))
            .bind(consumers)
            .bind(ids)
            .bind(rows::seconds(windows.events))
            .bind(rows::seconds(windows.answers))
    };
    let found = run(store, None, read).await;
    found.and_then(|found| rows::in_order(keys.len(), &found, stored_event)).map_err(classify::ours(READING))
}

/// Keeps events that a call of `apply` left out. All are of one source.
pub(super) async fn reject(
    store: &PostgresStore,
    rejections: &[Rejection<'_>],
) -> Result<Vec<bool>, StoreError> {
    let told = run(store, None, |_| rejection(rejections)).await.map_err(classify::ours(REJECTING))?;
    let inserted: Result<HashSet<&str>, _> = told.iter().map(|row| row.try_get(0)).collect();
    let inserted = inserted.map_err(classify::ours(REJECTING))?;
    Ok(rejections.iter().map(|rejection| inserted.contains(&*rejection.row.event.key.event_id)).collect())
}

/// Runs a statement that stands alone, on a connection that is kept for them. Takes another for one that
/// was lost while idle, and does without a function that is not there, whatever we believed. The statement
/// learns whether the handler is a function of the session.
async fn run<'q>(
    store: &PostgresStore,
    handler: Option<&SqlHandler>,
    statement: impl Fn(bool) -> Query<'q>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut spare = store.pool.options().get_max_connections();
    loop {
        let mut kept = store.kept.take(&store.pool).await?;
        let has_function = match handler {
            Some(handler) => kept.has_function_of(handler).await,
            None => Ok(false),
        };
        let is_call = matches!(has_function, Ok(true));
        let done = match has_function {
            Ok(has_function) => statement(has_function).fetch_all(kept.connection()).await,
            Err(error) => Err(error),
        };
        match done {
            // If it was committed all the same, its keys are met now, and their answers replayed.
            Err(error) if classify::is_lost_connection(&error) && spare > 0 => spare -= 1,
            // No event was applied: all that were new failed of it, and were left out.
            Ok(told) if is_call && misses_function(&told) => {
                tracing::warn!(
                    "a session of the database is not ours: if a proxy pools transactions, write \
                     database.statement_cache = \"off\""
                );
                kept.refuse_functions();
                store.kept.keep(&store.pool, kept);
            }
            done => {
                if done.as_ref().err().is_none_or(|error| error.as_database_error().is_some()) {
                    store.kept.keep(&store.pool, kept);
                }
                return done;
            }
        }
    }
}

/// The handler's statement with the insert of the keys before it. `None` where its grammar has no place for
/// that.
fn trusting(handler: &SqlHandler) -> Option<&str> {
    let ctes = || format!("{}, {}", INSERTED.trim_end(), handlers::event_cte(handler, Some(IS_NEW)));
    handler.compose_within(ctes, "hooklatch_handled", SELECT_INSERTED)
}

fn careful<'q>(
    events: &[NewEvent<'q>],
    fresh: &[FreshEvent<'q>],
    handler: &SqlHandler,
    statement: &'q str,
    chunk: usize,
) -> Query<'q> {
    let call = sqlx::query(include_str!("sql/apply_events.sql"));
    bind(call, events, fresh, handler).bind(statement).bind(i32::try_from(chunk).unwrap_or(i32::MAX))
}

/// Binds what a handler's relation `event` is made of, then the rows of the keys.
fn bind<'q>(
    query: Query<'q>,
    events: &[NewEvent<'q>],
    fresh: &[FreshEvent<'q>],
    handler: &SqlHandler,
) -> Query<'q> {
    let first = events.first();
    let Kinds { kinds, of_events } = Kinds::of(events);
    let is_known = |known: fn(&NewEvent<'_>) -> bool| events.iter().any(known);
    let fingerprints = || events.iter().map(|new| new.fingerprint.map(|Fingerprint(hash)| hash));
    let occurred = || events.iter().map(|new| new.event.occurred_at);
    handlers::bind_columns(query, fresh, |column| handler.mentions(column))
        .bind(first.map(|new| new.source))
        .bind(1_i32)
        .bind(first.map(|new| &*new.event.key.consumer))
        .bind(kinds.iter().map(|kind| kind.event_type).collect::<Vec<_>>())
        .bind((kinds.len() > 1).then_some(of_events))
        .bind(first.map(|new| new.state.as_str()))
        .bind(first.map(|new| rows::status(new.status)))
        .bind(is_known(|new| new.fingerprint.is_some()).then(|| fingerprints().collect::<Vec<_>>()))
        .bind(is_known(|new| new.event.occurred_at.is_some()).then(|| occurred().collect::<Vec<_>>()))
}

/// What became of each event, from the rows that tell what was not plain success.
fn fates(events: usize, told: &[PgRow]) -> Result<Vec<EventAtOnce>, sqlx::Error> {
    let mut fates = vec![EventAtOnce::Applied; events];
    for row in told {
        let place = usize::try_from(row.try_get::<i32, _>("ordinal")? - 1).ok();
        let fate = place.and_then(|place| fates.get_mut(place)).ok_or_else(|| unreadable("an ordinal"))?;
        *fate = match row.try_get::<Option<&str>, _>("code")? {
            None => EventAtOnce::Known,
            Some(code) => {
                let (permanent, reason) = handlers::failure(code, row.try_get("message")?);
                EventAtOnce::Failed { permanent, reason }
            }
        };
    }
    Ok(fates)
}

fn misses_function(told: &[PgRow]) -> bool {
    told.iter().any(|row| {
        let failed = (row.try_get::<Option<&str>, _>("code"), row.try_get::<Option<&str>, _>("message"));
        matches!(failed, (Ok(Some(code)), Ok(Some(message))) if handlers::is_missing_function(code, message))
    })
}

fn rejection<'q>(rejections: &[Rejection<'q>]) -> Query<'q> {
    let first = rejections.first().map(|rejection| rejection.row);
    let events = || rejections.iter().map(|rejection| rejection.row.event);
    let rows = || rejections.iter().map(|rejection| rejection.row);
    let letters = || rejections.iter().map(|rejection| &rejection.letter);
    let requests = || letters().map(|letter| &letter.fresh.delivery.request);
    sqlx::query(include_str!("sql/reject_events.sql"))
        .bind(first.map(|row| &*row.event.key.consumer))
        .bind(first.map(|row| row.source))
        .bind(events().map(|event| &*event.key.event_id).collect::<Vec<_>>())
        .bind(events().map(|event| &*event.event_type).collect::<Vec<_>>())
        .bind(rows().map(|row| row.state.as_str()).collect::<Vec<_>>())
        .bind(rows().map(|row| rows::status(row.status)).collect::<Vec<_>>())
        .bind(rows().map(|row| row.fingerprint.map(|Fingerprint(hash)| hash)).collect::<Vec<_>>())
        .bind(events().map(|event| event.occurred_at).collect::<Vec<_>>())
        .bind(letters().map(|letter| letter.id).collect::<Vec<_>>())
        .bind(letters().map(|letter| letter.cause.as_str()).collect::<Vec<_>>())
        .bind(letters().map(|letter| storable(letter.reason).into_owned()).collect::<Vec<_>>())
        .bind(requests().map(|request| storable(&request.target)).collect::<Vec<_>>())
        .bind(requests().map(|request| rows::raw_headers(&request.headers)).collect::<Vec<_>>())
        .bind(requests().map(|request| &*request.body).collect::<Vec<_>>())
        .bind(letters().map(|letter| letter.fresh.delivery.received_at).collect::<Vec<_>>())
}
