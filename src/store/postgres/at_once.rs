//! A plain batch in one statement: keys in, handler run, committed.
//!
//! The statement stands outside any explicit transaction, so its time limits are the session's: they are
//! set when a connection is made, which holds only where no proxy pools transactions. Elsewhere
//! there is no such way. SQLite has none: a statement there costs no trip over a network.

use sqlx::AssertSqlSafe;

use super::batch::{Kinds, inserted};
use super::connect::Query;
use super::{PostgresStore, classify, handlers, rows};
use crate::event::Fingerprint;
use crate::store::{AtOnce, FreshEvent, NewEvent, SqlHandler, StoreError, StoreErrorKind};

const DOING: &str = "apply a batch";

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
) -> Result<AtOnce, StoreError> {
    if !store.has_session_limits {
        return Ok(AtOnce::Unsupported);
    }
    let ctes = || format!("{}, {}", INSERTED.trim_end(), handlers::event_cte(handler, Some(IS_NEW)));
    let Some(statement) = handler.compose_within(ctes, "hooklatch_handled", SELECT_INSERTED) else {
        return Ok(AtOnce::Unsupported);
    };
    let mut spare = store.pool.options().get_max_connections();
    let error = loop {
        let mut connection = store.kept().await.map_err(classify::ours(DOING))?;
        match bind(statement, events, fresh, handler).fetch_one(&mut *connection).await {
            Ok(row) => {
                store.keep(connection);
                return inserted(events, &row).map(AtOnce::Applied).map_err(classify::ours(DOING));
            }
            // If it was committed all the same, its keys are met now, and their answers replayed.
            Err(error) if classify::is_lost_connection(&error) && spare > 0 => spare -= 1,
            Err(error) => {
                if error.as_database_error().is_some() {
                    store.keep(connection);
                }
                break classify::handlers(DOING)(error);
            }
        }
    };
    match error.kind {
        StoreErrorKind::Data | StoreErrorKind::Statement => Ok(AtOnce::HandlerFailed),
        _ => Err(error),
    }
}

/// The parameters of the handler's relation `event` first, then those of the insert.
fn bind<'q>(
    statement: &'q str,
    events: &[NewEvent<'q>],
    fresh: &[FreshEvent<'q>],
    handler: &SqlHandler,
) -> Query<'q> {
    let first = events.first();
    let Kinds { kinds, of_events } = Kinds::of(events);
    let is_known = |known: fn(&NewEvent<'_>) -> bool| events.iter().any(known);
    let fingerprints = || events.iter().map(|new| new.fingerprint.map(|Fingerprint(hash)| hash));
    let occurred = || events.iter().map(|new| new.event.occurred_at);
    // Safe: the statement is the operator's own, from the configuration.
    let run = sqlx::query(AssertSqlSafe(statement));
    handlers::bind_columns(run, fresh, |column| handler.mentions(column))
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
