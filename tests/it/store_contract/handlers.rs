//! Handlers: the relation `event`, and each event whole or not at all.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hooklatch::event::{Event, EventKey, JsonText};
use hooklatch::handler::{Handler, HandlerConnection, HandlerError, HandlerReply, SqlHandler, Step};
use hooklatch::store::{BatchLimits, Dialect, HandlerResult, StoreErrorKind};

use super::fixture::{CHUNK, Database, LIMITS, delivery, event, fresh, plan, run, sql};

/// Takes orders with a positive amount.
const ORDERS: &str = "CREATE TABLE orders (
    id TEXT NOT NULL PRIMARY KEY, amount INTEGER NOT NULL CHECK (amount > 0))";

const INSERT: &str = "INSERT INTO orders (id, amount)
    SELECT data ->> 'order', CAST(data ->> 'amount' AS integer) FROM event";

const IDS: &str = "SELECT id FROM orders ORDER BY id";

async fn with_orders(dialect: Dialect) -> Database {
    let db = Database::new(dialect).await;
    db.execute(ORDERS).await;
    db
}

fn order(id: &str, amount: i64) -> Event {
    event(id, &format!(r#"{{"order": "{id}", "amount": {amount}}}"#))
}

/// `applied`, `permanent` or `transient`, for each.
fn told(results: &[HandlerResult]) -> Vec<&'static str> {
    results
        .iter()
        .map(|result| match result {
            HandlerResult::Applied(_) => "applied",
            HandlerResult::Failed { permanent: true, .. } => "permanent",
            HandlerResult::Failed { permanent: false, .. } => "transient",
        })
        .collect()
}

pub(super) async fn a_statement_serves_one_event_or_many(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let one = delivery(vec![sql(INSERT)], vec![order("one", 1)]);
    assert_eq!(told(&db.handle(&one, CHUNK).await), ["applied"]);
    let ids: Vec<String> = (0..600).map(|n| format!("{n:03}")).collect();
    let many = delivery(vec![sql(INSERT)], ids.iter().map(|id| order(id, 1)).collect());
    assert_eq!(told(&db.handle(&many, CHUNK).await), ["applied"; 600]);
    assert_eq!(db.texts(IDS).await.len(), 601);
    assert!(db.handle(&delivery(vec![sql(INSERT)], vec![]), CHUNK).await.is_empty());
}

pub(super) async fn the_columns_of_event_are_what_was_sent(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE seen (place TEXT, text TEXT)").await;
    let whole = Bytes::from_static(
        br#"{"id": "e-2", "data": {"name": "J\u00fcrgen \"J\" \ud83d\ude00", "n": null}}"#,
    );
    let data = JsonText::parse(whole.slice(21..whole.len() - 1)).expect("JSON");
    let second = Event { payload: JsonText::parse(whole).expect("JSON"), data, ..event("e-2", "{}") };
    let undated = Event { occurred_at: None, event_type: "".into(), ..event("e-1", "{}") };
    let columns = "INSERT INTO seen
        SELECT CAST(ordinal AS text), id || '|' || type || '|' || (data ->> 'name')
            || '|' || (payload ->> 'id') || '|' || (headers ->> 'x-shop') || '|' || source FROM event
            WHERE ordinal = 2
        UNION ALL SELECT 'occurred', CAST(occurred_at AS text) FROM event WHERE ordinal = 2
        UNION ALL SELECT 'received', CAST(received_at AS text) FROM event WHERE ordinal = 2
        UNION ALL SELECT 'undated', coalesce(CAST(occurred_at AS text), type) FROM event WHERE ordinal = 1
        UNION ALL SELECT 'absent', coalesce(data ->> 'n', data ->> 'no', headers ->> 'no', '-') FROM event";
    let mut delivery = delivery(vec![sql(columns)], vec![undated, second]);
    delivery.request.headers.push("x-shop", "north");
    assert_eq!(told(&db.handle(&delivery, CHUNK).await), ["applied"; 2]);

    let text = async |place: &str| db.texts(&format!("SELECT text FROM seen WHERE place = '{place}'")).await;
    assert_eq!(text("2").await, ["e-2|order_created|Jürgen \"J\" 😀|e-2|north|shop"]);
    let occurred = text("occurred").await.remove(0);
    assert!(occurred.contains(":00:00.123456") && occurred.starts_with("2026-01-01"), "{occurred}");
    let received = text("received").await.remove(0);
    assert!(received.starts_with(&delivery.received_at.format("%Y-%m-%d").to_string()), "{received}");
    assert_eq!(text("undated").await, [""]);
    assert_eq!(text("absent").await, ["-", "-"]);
}

pub(super) async fn numbers_keep_their_digits(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE seen (number TEXT)").await;
    let numbers = ["1.10", "123456789012345678901234567890", "0.1000000000000000055511151231257827"];
    let events = numbers.map(|number| event(number, &format!(r#"{{"n": {number}}}"#)));
    let keep = sql("INSERT INTO seen SELECT CAST(data -> 'n' AS text) FROM event");
    assert_eq!(told(&db.handle(&delivery(vec![keep], events.to_vec()), CHUNK).await), ["applied"; 3]);
    let mut seen = db.texts("SELECT number FROM seen").await;
    seen.sort();
    let mut numbers = numbers;
    numbers.sort_unstable();
    assert_eq!(seen, numbers);
}

pub(super) async fn a_leading_with_is_merged(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let with = "-- Only the large ones.
        WITH RECURSIVE large AS (SELECT data FROM event WHERE CAST(data ->> 'amount' AS integer) > 1),
            numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2)
        INSERT INTO orders (id, amount)
        SELECT (data ->> 'order') || CAST(n AS text), n FROM large CROSS JOIN numbers;";
    let events = vec![order("a", 1), order("b", 2)];
    assert_eq!(told(&db.handle(&delivery(vec![sql(with)], events), CHUNK).await), ["applied"; 2]);
    assert_eq!(db.texts(IDS).await, ["b1", "b2"]);
}

pub(super) async fn handlers_that_are_trusted_apply_all_or_say_that_one_failed(dialect: Dialect) {
    let db = with_orders(dialect).await;
    for (events, succeeds) in [
        (vec![order("a", 1), order("b", 2)], true),
        (vec![order("c", 1), order("d", -1)], false),
        (vec![order("e", 1)], true),
    ] {
        let delivery = delivery(vec![sql(INSERT)], events);
        let mut batch = db.begin().await;
        let results = batch
            .try_handlers(&delivery.source, plan(&delivery.source), &fresh(&delivery))
            .await
            .expect("no failure of the batch's own");
        assert_eq!(results.is_some(), succeeds);
        if let Some(results) = results {
            assert_eq!(told(&results), vec!["applied"; results.len()]);
            batch.commit().await.expect("commits");
        }
    }
    assert_eq!(db.texts(IDS).await, ["a", "b", "e"]);
}

pub(super) async fn a_poison_event_takes_no_other_with_it(dialect: Dialect) {
    const PLACES: usize = 9;
    for chunk in [1, 4, CHUNK] {
        let db = with_orders(dialect).await;
        for poison in 0..PLACES {
            let amount = |place| if place == poison { -1 } else { 1 };
            let events = (0..PLACES).map(|place| order(&format!("{poison}-{place}"), amount(place)));
            let results = db.handle(&delivery(vec![sql(INSERT)], events.collect()), chunk).await;
            let mut expected = vec!["applied"; PLACES];
            expected[poison] = "permanent";
            assert_eq!(told(&results), expected);
            let kept = db.texts(&format!("SELECT id FROM orders WHERE id LIKE '{poison}-%'")).await;
            assert_eq!(kept.len(), PLACES - 1);
            assert!(!kept.contains(&format!("{poison}-{poison}")));
        }
    }
}

pub(super) async fn every_kind_of_bad_data_is_permanent(dialect: Dialect) {
    let db = with_orders(dialect).await;
    db.execute("CREATE TABLE lines (order_id TEXT NOT NULL REFERENCES orders (id))").await;
    let line = "INSERT INTO lines SELECT data ->> 'order' FROM event";
    let no_json = db.sql(
        "INSERT INTO orders SELECT id, CAST(CAST(id || '{' AS jsonb) ->> 'a' AS integer) FROM event",
        "INSERT INTO orders SELECT id, '{' ->> 'a' FROM event",
    );
    let overflow = db.sql(
        "INSERT INTO orders SELECT id, 2147483647 + CAST(data ->> 'amount' AS integer) FROM event",
        "INSERT INTO orders SELECT id, abs(-9223372036854775807 - (data ->> 'amount')) FROM event",
    );
    for (what, statement) in [
        ("unique", "INSERT INTO orders SELECT 'same', CAST(data ->> 'amount' AS integer) FROM event"),
        ("not null", "INSERT INTO orders SELECT data ->> 'no', 1 FROM event"),
        ("foreign key", line),
        ("no JSON", no_json),
        ("overflow", overflow),
    ] {
        db.execute("DELETE FROM orders").await;
        db.execute("INSERT INTO orders VALUES ('same', 1)").await;
        let results = db.handle(&delivery(vec![sql(statement)], vec![order("x", 1)]), CHUNK).await;
        let [HandlerResult::Failed { permanent: true, reason }] = results.as_slice() else {
            panic!("{what}: {results:?}")
        };
        assert!(!reason.is_empty(), "{what}");
    }
}

pub(super) async fn a_statement_that_does_not_fit_the_schema_is_transient(dialect: Dialect) {
    let db = with_orders(dialect).await;
    for statement in [
        "INSERT INTO nowhere SELECT id FROM event",
        "INSERT INTO orders (id, amount, nothing) SELECT id, 1, 2 FROM event",
        "INSERT INTO orders SELECT id, no_such_function(id) FROM event",
        "INSERT INTO orders SELEKT id FROM event",
    ] {
        let events = vec![order("a", 1), order("b", 1), order("c", 1)];
        let results = db.handle(&delivery(vec![sql(statement)], events), CHUNK).await;
        assert_eq!(told(&results), ["transient"; 3], "{statement}: {results:?}");
    }
    assert!(db.texts(IDS).await.is_empty());
}

pub(super) async fn the_steps_of_an_event_are_undone_together(dialect: Dialect) {
    let db = with_orders(dialect).await;
    db.execute("CREATE TABLE log (id TEXT NOT NULL)").await;
    db.execute("INSERT INTO orders VALUES ('b', 1)").await;
    let log = "INSERT INTO log SELECT id FROM event";
    let events = vec![order("a", 1), order("b", 1), order("c", 1)];
    let results = db.handle(&delivery(vec![sql(log), sql(INSERT), sql(log)], events), CHUNK).await;
    assert_eq!(told(&results), ["applied", "permanent", "applied"]);
    assert_eq!(db.texts("SELECT id FROM log ORDER BY id").await, ["a", "a", "c", "c"]);
}

/// Code that logs every event and then says `error` of the event `poison`.
struct Log {
    poison: &'static str,
    error: fn() -> HandlerError,
}

#[async_trait]
impl Handler for Log {
    async fn apply(
        &self,
        connection: HandlerConnection<'_>,
        events: &[&Event],
    ) -> Result<Vec<(EventKey, HandlerReply)>, HandlerError> {
        const LOG: &str = "INSERT INTO log VALUES ($1)";
        let mut replies = Vec::new();
        let mut connection = connection;
        for event in events {
            let id = &*event.key.event_id;
            match &mut connection {
                HandlerConnection::Postgres(c) => {
                    sqlx::query(LOG).bind(id).execute(&mut **c).await.map(drop)?;
                }
                HandlerConnection::Sqlite(c) => {
                    sqlx::query(LOG).bind(id).execute(&mut **c).await.map(drop)?;
                }
            }
            if id == self.poison {
                return Err((self.error)());
            }
            let reply = HandlerReply { status: Some(201), body: Some(id.into()), ..HandlerReply::default() };
            replies.push((event.key.clone(), reply));
        }
        Ok(replies)
    }
}

fn log(poison: &'static str, error: fn() -> HandlerError) -> Step {
    Step::Code(Arc::new(Log { poison, error }))
}

pub(super) async fn code_and_sql_are_undone_together(dialect: Dialect) {
    let db = with_orders(dialect).await;
    db.execute("CREATE TABLE log (id TEXT NOT NULL)").await;
    let steps = vec![sql(INSERT), log("b", || HandlerError::Permanent("no".into())), sql(INSERT_AGAIN)];
    let events = ["a", "b", "c", "twice", "d"].map(|id| order(id, 1)).to_vec();
    let results = db.handle(&delivery(steps, events), CHUNK).await;
    assert_eq!(told(&results), ["applied", "permanent", "applied", "permanent", "applied"]);
    let HandlerResult::Failed { reason, .. } = &results[1] else { panic!("{results:?}") };
    assert!(reason.contains("no"), "{reason}");
    let HandlerResult::Applied(Some(reply)) = &results[2] else { panic!("{results:?}") };
    assert_eq!((reply.status, reply.body.as_deref()), (Some(201), Some(&b"c"[..])));
    assert_eq!(db.texts("SELECT id FROM log ORDER BY id").await, ["a", "c", "d"]);
    assert_eq!(db.texts(IDS).await, ["a", "c", "d"]);
}

/// Fails on the order `twice`, which the step before has inserted.
const INSERT_AGAIN: &str = "INSERT INTO orders SELECT id, 1 FROM event WHERE id = 'twice'";

pub(super) async fn what_code_says_of_an_event_stands(dialect: Dialect) {
    let db = with_orders(dialect).await;
    db.execute("CREATE TABLE log (id TEXT NOT NULL)").await;
    for (error, expected) in [
        ((|| HandlerError::Transient("later".into())) as fn() -> HandlerError, "transient"),
        (|| HandlerError::Permanent("never".into()), "permanent"),
        (|| HandlerError::Database(sqlx::Error::RowNotFound), "transient"),
    ] {
        let events = vec![order("a", 1), order("b", 1)];
        let results = db.handle(&delivery(vec![log("a", error)], events), CHUNK).await;
        assert_eq!(told(&results), [expected, "applied"]);
    }
}

pub(super) async fn a_deferred_constraint_never_commits(dialect: Dialect) {
    let db = with_orders(dialect).await;
    db.execute(
        "CREATE TABLE lines (
            order_id TEXT NOT NULL REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let orphan = delivery(vec![sql("INSERT INTO lines SELECT id FROM event")], vec![order("x", 1)]);
    let mut batch = db.begin().await;
    let results = run(&mut *batch, &orphan, CHUNK).await.expect("goes on");
    // The event's fault is seen at the end of its chunk, or at the latest by the commit.
    let committed = batch.commit().await;
    match told(&results)[0] {
        "permanent" => committed.expect("commits"),
        _ => assert_eq!(committed.expect_err("refused").kind, StoreErrorKind::Data),
    }
    assert!(db.texts("SELECT order_id FROM lines").await.is_empty());
    // A constraint that holds in the end is none of our business.
    let line_first = vec![sql("INSERT INTO lines SELECT id FROM event"), sql(INSERT)];
    assert_eq!(told(&db.handle(&delivery(line_first, vec![order("y", 1)]), CHUNK).await), ["applied"]);
}

pub(super) async fn a_payload_that_the_database_refuses_takes_no_other_with_it(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE seen (id TEXT NOT NULL, name TEXT)").await;
    let insert = sql("INSERT INTO seen SELECT id, payload ->> 'name' FROM event");
    // JSON allows all three; jsonb takes neither the zero character nor half a surrogate pair.
    let odd = [r#"{"name": "\u0000"}"#, r#"{"name": "\ud800"}"#, r#"{"name": 1e999999}"#];
    for (n, odd) in odd.into_iter().enumerate() {
        let ids = [format!("a{n}"), format!("b{n}"), format!("c{n}")];
        let events = vec![event(&ids[0], r#"{"name": "x"}"#), event(&ids[1], odd), event(&ids[2], "{}")];
        let results = db.handle(&delivery(vec![insert.clone()], events), CHUNK).await;
        let told = told(&results);
        assert_eq!((told[0], told[2]), ("applied", "applied"), "{odd}: {results:?}");
        assert_ne!(told[1], "transient", "{odd}: {results:?}");
        let kept = usize::from(told[1] == "applied") + 2;
        assert_eq!(db.texts(&format!("SELECT id FROM seen WHERE id LIKE '%{n}'")).await.len(), kept);
    }
}

pub(super) async fn a_statement_that_runs_too_long_ends_the_batch(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let endless = db.sql(
        "INSERT INTO orders SELECT id, 1 FROM event WHERE pg_sleep(60) IS NOT NULL",
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000000000)
         INSERT INTO orders SELECT id, (SELECT max(n) FROM n) FROM event",
    );
    let slow = delivery(vec![sql(INSERT), sql(endless)], vec![order("a", 1)]);
    let limits = BatchLimits { statement: Duration::from_millis(300), ..LIMITS };
    let mut batch = db.store().begin(limits).await.expect("begins");
    let error = run(&mut *batch, &slow, CHUNK).await.expect_err("is stopped");
    assert_eq!(error.kind, StoreErrorKind::StatementTimeout, "{error:?}");
    drop(batch);
    assert!(db.texts(IDS).await.is_empty());
    assert_eq!(told(&db.handle(&delivery(vec![sql(INSERT)], vec![order("a", 1)]), CHUNK).await), ["applied"]);
}

pub(super) async fn a_handler_is_checked_without_running(dialect: Dialect) {
    let db = with_orders(dialect).await;
    let check =
        async |text: &str| db.store().check_handler(&SqlHandler::new(text).expect("one statement")).await;
    check(INSERT).await.expect("fits");
    check("INSERT INTO orders VALUES ('x', 1)").await.expect("fits");
    assert!(db.texts(IDS).await.is_empty(), "nothing ran");
    for wrong in
        ["INSERT INTO nowhere SELECT id FROM event", "SELECT nothing FROM event", "SELECT FROM FROM event"]
    {
        let error = check(wrong).await.expect_err(wrong);
        assert_eq!(error.kind, StoreErrorKind::Statement, "{wrong}: {error:?}");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(!cause.is_empty(), "{wrong}");
    }
}
