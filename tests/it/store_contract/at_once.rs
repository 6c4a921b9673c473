//! A plain batch in one statement, where a store has such a way.

use hooklatch::event::Delivery;
use hooklatch::handler::Step;
use hooklatch::inbox::outcome::EventState;
use hooklatch::store::{
    Age, AtOnce, DeadLetterFilter, DeathCause, Dialect, EventAtOnce, NewDeadLetter, NewEvent, Rejection,
    SqlHandler, StoreErrorKind,
};

use super::fixture::{Database, WINDOWS, delivery, event, fresh, new_events, sql};

const INSERT: &str = "INSERT INTO orders SELECT id, CAST(data ->> 'amount' AS integer) FROM event";

async fn with_orders(dialect: Dialect) -> Database {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE orders (id TEXT NOT NULL, amount INTEGER CHECK (amount > 0))").await;
    db
}

async fn apply(db: &Database, events: &[(&str, i32)]) -> Result<AtOnce, StoreErrorKind> {
    apply_in_chunks(db, events, None).await
}

async fn apply_in_chunks(
    db: &Database,
    events: &[(&str, i32)],
    chunk: Option<usize>,
) -> Result<AtOnce, StoreErrorKind> {
    let delivery = orders(events);
    let (rows, fresh) = (new_events(&delivery), fresh(&delivery));
    let applied = db.store().apply_at_once(&rows, &fresh, handler(&delivery.source), chunk);
    applied.await.map_err(|error| error.kind)
}

fn orders(events: &[(&str, i32)]) -> Delivery {
    let events = events.iter().map(|(id, amount)| event(id, &format!(r#"{{"amount":{amount}}}"#)));
    delivery(vec![sql(INSERT)], events.collect())
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
        Dialect::Postgres => Ok(AtOnce::Committed(
            inserted.iter().map(|new| if *new { EventAtOnce::Applied } else { EventAtOnce::Known }).collect(),
        )),
        Dialect::Sqlite => Ok(AtOnce::Unsupported),
    }
}

/// `+` applied, `=` known, `-` failed for good, `~` failed for now.
fn signs(applied: &Result<AtOnce, StoreErrorKind>) -> String {
    let Ok(AtOnce::Committed(fates)) = applied else { return format!("{applied:?}") };
    let sign = |fate: &EventAtOnce| match fate {
        EventAtOnce::Applied => '+',
        EventAtOnce::Known => '=',
        EventAtOnce::Failed { permanent: true, .. } => '-',
        EventAtOnce::Failed { permanent: false, .. } => '~',
    };
    fates.iter().map(sign).collect()
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

pub(super) async fn one_statement_leaves_out_what_fails_and_nothing_else(dialect: Dialect) {
    const CHUNKS: [usize; 5] = [1, 2, 3, 8, 100];
    let db = with_orders(dialect).await;
    if dialect == Dialect::Sqlite {
        assert_eq!(apply_in_chunks(&db, &[("a", 1)], Some(1)).await, Ok(AtOnce::Unsupported));
        return;
    }
    // Bit by bit, which of five events fail; the third is known from before.
    for (chunk, failing) in CHUNKS.into_iter().flat_map(|chunk| (0_u32..32).map(move |mask| (chunk, mask))) {
        let ids = ["e", "d", "c", "b", "a"].map(|id| format!("{chunk}/{failing}/{id}"));
        assert_eq!(signs(&apply(&db, &[(&ids[2], 1)]).await), "+");
        let fails = |place: u32| failing & (1 << place) != 0;
        let events: Vec<(&str, i32)> =
            (0..).zip(&ids).map(|(at, id)| (&**id, if fails(at) { -1 } else { 1 })).collect();
        let expected: String = (0..5)
            .map(|at| match at {
                2 => '=',
                at if fails(at) => '-',
                _ => '+',
            })
            .collect();
        assert_eq!(signs(&apply_in_chunks(&db, &events, Some(chunk)).await), expected, "{chunk} {failing:b}");
        let again: Vec<(&str, i32)> = events.iter().copied().filter(|(_, amount)| *amount > 0).collect();
        let known = "=".repeat(again.len());
        assert_eq!(signs(&apply_in_chunks(&db, &again, Some(chunk)).await), known, "{chunk} {failing:b}");
        let kept = (0..).zip(&ids).filter(|&(at, _)| at == 2 || !fails(at)).map(|(_, id)| &**id);
        let mut kept: Vec<&str> = kept.collect();
        kept.sort_unstable();
        let like = format!("LIKE '{chunk}/{failing}/%' ORDER BY 1");
        assert_eq!(db.texts(&format!("SELECT id FROM orders WHERE id {like}")).await, kept);
        let keys = format!("SELECT event_id FROM hooklatch.processed_events WHERE event_id {like}");
        assert_eq!(db.texts(&keys).await, kept, "what failed is as new as before");
    }
}

/// Functions of sessions that hold a handler's statement.
async fn functions(db: &Database) -> usize {
    const OF_SESSIONS: &str = "SELECT proname::text FROM pg_proc WHERE pronamespace::regnamespace::text LIKE 'pg_temp%' \
         AND proname LIKE 'hooklatch%'";
    db.texts(OF_SESSIONS).await.len()
}

pub(super) async fn a_careful_statement_is_a_function_of_the_session_where_that_may_be(dialect: Dialect) {
    // Names that a function could take for a variable of its own, and a comment where its text ends.
    const TRICKY: &str = "WITH more AS (SELECT id AS found, CAST(data ->> 'amount' AS integer) AS ordinal FROM event) \
         INSERT INTO orders SELECT found, ordinal FROM more -- $hooklatch$ ; END";
    const DROP_FUNCTIONS: &str = "DO $$ DECLARE f record; BEGIN FOR f IN SELECT oid FROM pg_proc \
         WHERE pronamespace::regnamespace::text LIKE 'pg_temp%' AND proname LIKE 'hooklatch%' \
         LOOP EXECUTE 'DROP FUNCTION ' || f.oid::regprocedure; END LOOP; END $$";
    const LAST: usize = 4;
    if dialect == Dialect::Sqlite {
        return;
    }
    for is_refused in [false, true] {
        let db = with_orders(dialect).await;
        if is_refused {
            db.execute(
                "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql \
                 AS $$ BEGIN RAISE EXCEPTION 'no functions here'; END $$",
            )
            .await;
            db.execute(
                "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE FUNCTION') \
                 EXECUTE FUNCTION refuse()",
            )
            .await;
        }
        // The first finds a session that is not kept yet.
        for (round, statement) in [INSERT, TRICKY, INSERT, TRICKY, INSERT].into_iter().enumerate() {
            if round == LAST {
                // As behind a proxy that was not recognised, where the next statement finds another session.
                assert_eq!(functions(&db).await, if is_refused { 0 } else { 2 });
                db.execute(DROP_FUNCTIONS).await;
            }
            let ids = ["a", "b", "c"].map(|id| format!("{round}{id}"));
            let amounts = ids.iter().zip([1, -1, 2]);
            let events = amounts.map(|(id, amount)| event(id, &format!(r#"{{"amount":{amount}}}"#)));
            let delivery = delivery(vec![sql(statement)], events.collect());
            let (rows, fresh) = (new_events(&delivery), fresh(&delivery));
            let applied = db.store().apply_at_once(&rows, &fresh, handler(&delivery.source), Some(100)).await;
            assert_eq!(signs(&applied.map_err(|error| error.kind)), "+-+", "{statement} {is_refused}");
        }
        let orders = db.texts("SELECT id || ' ' || amount FROM orders ORDER BY 1").await;
        let expected: Vec<_> =
            (0..=LAST).flat_map(|round| [format!("{round}a 1"), format!("{round}c 2")]).collect();
        assert_eq!(orders, expected);
        assert_eq!(functions(&db).await, 0);
    }
}

pub(super) async fn failures_of_one_statement_say_whether_they_pass(dialect: Dialect) {
    let db = with_orders(dialect).await;
    db.execute("ALTER TABLE orders RENAME TO gone").await;
    let failed = apply_in_chunks(&db, &[("c", 1), ("d", 1)], Some(100)).await;
    match dialect {
        Dialect::Postgres => assert_eq!(signs(&failed), "~~", "a missing table may come back"),
        Dialect::Sqlite => assert_eq!(failed, Ok(AtOnce::Unsupported)),
    }
}

pub(super) async fn events_that_were_there_are_read_back_in_the_order_asked(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let asked = orders(&[("b", 1), ("x", 1), ("a", 1)]);
    let keys: Vec<_> = asked.events.iter().map(|event| &event.key).collect();
    let read = async || {
        let stored = db.store().stored_at_once(&keys, WINDOWS).await.expect("reads");
        stored.into_iter().map(|row| row.map(|row| (row.state, row.status, row.age))).collect::<Vec<_>>()
    };
    assert_eq!(read().await, [None; 3]);
    let there = match apply(&db, &[("a", 1), ("b", 1)]).await {
        Ok(AtOnce::Unsupported) => None,
        _ => Some((EventState::Applied, 200, Age::AnswerLive)),
    };
    assert_eq!(there.is_some(), dialect == Dialect::Postgres);
    assert_eq!(read().await, [there, None, there]);
}

fn rejections(delivery: &Delivery) -> Vec<Rejection<'_>> {
    let rejection = |(row, fresh)| Rejection {
        row: NewEvent { state: EventState::Rejected, status: 422, ..row },
        letter: NewDeadLetter {
            id: hooklatch::clock::new_id(),
            fresh,
            cause: DeathCause::Rejected,
            reason: "no such\0amount",
        },
    };
    new_events(delivery).into_iter().zip(fresh(delivery)).map(rejection).collect()
}

pub(super) async fn rejected_events_are_kept_with_their_letters_unless_they_came_in_meanwhile(
    dialect: Dialect,
) {
    let db = with_orders(dialect).await;
    let delivery = orders(&[("b", -1), ("a", -1), ("c", -1)]);
    if dialect == Dialect::Sqlite {
        let kept = db.store().reject_at_once(&rejections(&delivery)).await.expect("nothing to do");
        assert_eq!(kept, [false; 3]);
        return;
    }
    assert_eq!(signs(&apply(&db, &[("a", 1)]).await), "+", "another replica was given a better one");
    let kept = db.store().reject_at_once(&rejections(&delivery)).await.expect("keeps");
    assert_eq!(kept, [true, false, true]);
    let letters = db.store().dead_letters(&DeadLetterFilter { limit: 9, ..Default::default() }).await;
    let letters = letters.expect("reads");
    let ids: Vec<&str> = letters.iter().map(|letter| &*letter.key.event_id).collect();
    assert_eq!(ids, ["b", "c"]);
    assert!(letters.iter().all(|letter| letter.body == delivery.request.body && letter.attempts == 1));
    let states =
        "SELECT event_id || ' ' || state || ' ' || status FROM hooklatch.processed_events ORDER BY 1";
    assert_eq!(db.texts(states).await, ["a applied 200", "b rejected 422", "c rejected 422"]);
    // Again: the keys are there now.
    let again = db.store().reject_at_once(&rejections(&delivery)).await.expect("keeps");
    assert_eq!(again, [false; 3]);
}
