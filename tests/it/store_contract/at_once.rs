//! A plain batch in one statement, where a store has such a way.

use hooklatch::handler::Step;
use hooklatch::store::{AtOnce, Dialect, SqlHandler, StoreErrorKind};

use super::fixture::{Database, delivery, event, fresh, new_events, sql};

const INSERT: &str = "INSERT INTO orders SELECT id, CAST(data ->> 'amount' AS integer) FROM event";

async fn with_orders(dialect: Dialect) -> Database {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE orders (id TEXT NOT NULL, amount INTEGER CHECK (amount > 0))").await;
    db
}

async fn apply(db: &Database, events: &[(&str, i32)]) -> Result<AtOnce, StoreErrorKind> {
    let events = events.iter().map(|(id, amount)| event(id, &format!(r#"{{"amount":{amount}}}"#)));
    let delivery = delivery(vec![sql(INSERT)], events.collect());
    let (rows, fresh) = (new_events(&delivery), fresh(&delivery));
    let applied = db.store().apply_at_once(&rows, &fresh, handler(&delivery.source));
    applied.await.map_err(|error| error.kind)
}

fn handler(source: &hooklatch::source::Source) -> &SqlHandler {
    match &source.handlers[0].step {
        Step::Sql(handler) => handler,
        _ => panic!("a statement"),
    }
}

/// What a store says that has such a way; the others say that they have none, and do nothing.
fn says(dialect: Dialect, inserted: &[bool]) -> Result<AtOnce, StoreErrorKind> {
    match dialect {
        Dialect::Postgres => Ok(AtOnce::Applied(inserted.to_vec())),
        Dialect::Sqlite => Ok(AtOnce::Unsupported),
    }
}

pub(super) async fn one_statement_applies_what_is_new_and_nothing_else(dialect: Dialect) {
    let db = with_orders(dialect).await;
    assert_eq!(apply(&db, &[("b", 1), ("a", 1)]).await, says(dialect, &[true, true]));
    assert_eq!(apply(&db, &[("c", 1), ("a", 1), ("d", 1)]).await, says(dialect, &[true, false, true]));
    assert_eq!(apply(&db, &[("a", 1), ("b", 1)]).await, says(dialect, &[false, false]));
    assert_eq!(apply(&db, &[("e", 1)]).await, says(dialect, &[true]));
    let expected: &[&str] = match dialect {
        Dialect::Postgres => &["a", "b", "c", "d", "e"],
        Dialect::Sqlite => &[],
    };
    assert_eq!(db.texts("SELECT id FROM orders ORDER BY id").await, expected);
}

pub(super) async fn one_statement_of_which_an_event_fails_does_nothing(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let failed = match dialect {
        Dialect::Postgres => AtOnce::HandlerFailed,
        Dialect::Sqlite => AtOnce::Unsupported,
    };
    assert_eq!(apply(&db, &[("a", 1), ("b", -1)]).await, Ok(failed));
    assert!(db.texts("SELECT id FROM orders").await.is_empty());
    // The keys are as new as before.
    assert_eq!(apply(&db, &[("a", 1), ("b", 1)]).await, says(dialect, &[true, true]));
}

pub(super) async fn one_statement_waits_for_a_key_that_is_held_elsewhere(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let held = delivery(vec![sql(INSERT)], vec![event("a", r#"{"amount":1}"#)]);
    let mut batch = db.begin().await;
    batch.insert_events(&new_events(&held)).await.expect("inserts");
    let waited = match dialect {
        Dialect::Postgres => Err(StoreErrorKind::LockTimeout),
        Dialect::Sqlite => Ok(AtOnce::Unsupported),
    };
    assert_eq!(apply(&db, &[("b", 1), ("a", 1)]).await, waited);
    drop(batch);
    // The rollback may still be under way: then it is waited for.
    assert_eq!(apply(&db, &[("b", 1), ("a", 1)]).await, says(dialect, &[true, true]));
}
