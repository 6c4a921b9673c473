//! The answers that handlers' statements give.

use hooklatch::handler::HandlerReply;
use hooklatch::store::{Dialect, HandlerResult};

use super::fixture::{CHUNK, Database, delivery, event, sql};

fn events() -> Vec<hooklatch::event::Event> {
    ["a", "b", "c"].map(|id| event(id, r#"{"n": 1}"#)).to_vec()
}

async fn answers(db: &Database, statements: &[&str]) -> Vec<Option<HandlerReply>> {
    let steps = statements.iter().map(|text| sql(text)).collect();
    db.handle(&delivery(steps, events()), CHUNK)
        .await
        .into_iter()
        .map(|result| match result {
            HandlerResult::Applied(reply) => reply,
            HandlerResult::Failed { reason, .. } => panic!("{reason}"),
        })
        .collect()
}

pub(super) async fn a_statement_that_returns_event_ids_answers_them(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE orders (id TEXT NOT NULL, note TEXT)").await;
    let select = db.sql(
        r#"SELECT id AS event_id, 201 AS status, CAST('{"Location": "/o/1", "x-n": 2}' AS json) AS headers,
            'made "' || id || '"' AS body FROM event WHERE id <> 'b'"#,
        r#"SELECT id AS event_id, 201 AS status, '{"Location": "/o/1", "x-n": 2}' AS headers,
            'made "' || id || '"' AS body FROM event WHERE id <> 'b'"#,
    );
    let [Some(a), None, Some(c)] = &answers(&db, &[select]).await[..] else { panic!("a and c are answered") };
    assert_eq!(a.status, Some(201));
    let mut headers: Vec<_> = a.headers.iter().map(|(n, v)| (n.to_ascii_lowercase(), v.clone())).collect();
    headers.sort();
    assert_eq!(headers, [("location".into(), "/o/1".into()), ("x-n".into(), "2".into())]);
    assert_eq!(a.body.as_deref(), Some(&b"made \"a\""[..]));
    assert_eq!(c.body.as_deref(), Some(&b"made \"c\""[..]));

    let returning = "INSERT INTO orders SELECT id, 'x' FROM event RETURNING id AS event_id, 202 AS status";
    for reply in answers(&db, &[returning]).await {
        assert_eq!(reply, Some(HandlerReply { status: Some(202), ..HandlerReply::default() }));
    }
    assert_eq!(db.texts("SELECT id FROM orders").await.len(), 3);
}

pub(super) async fn the_last_answer_of_an_event_counts(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let first = "SELECT id AS event_id, 201 AS status, 'first' AS body FROM event";
    let second = "SELECT id AS event_id, 202 AS status FROM event WHERE id = 'b'";
    let statuses: Vec<_> = answers(&db, &[first, second])
        .await
        .into_iter()
        .map(|reply| reply.map(|reply| (reply.status, reply.body.is_some())))
        .collect();
    assert_eq!(statuses, [Some((Some(201), true)), Some((Some(202), false)), Some((Some(201), true))]);
}

pub(super) async fn rows_without_an_event_id_answer_nothing(dialect: Dialect) {
    let db = Database::new(dialect).await;
    for statement in [
        "SELECT id FROM event",
        "SELECT CAST(NULL AS text) AS event_id, 201 AS status FROM event",
        "SELECT 1 AS status WHERE 1 = 0",
    ] {
        assert_eq!(answers(&db, &[statement]).await, [None, None, None], "{statement}");
    }
    let nulls =
        "SELECT id AS event_id, CAST(NULL AS integer) AS status, CAST(NULL AS text) AS body FROM event";
    assert_eq!(answers(&db, &[nulls]).await, vec![Some(HandlerReply::default()); 3]);
}

pub(super) async fn an_answer_http_does_not_allow_fails_for_now(dialect: Dialect) {
    let db = Database::new(dialect).await;
    for (postgres, sqlite) in [
        ("99 AS status", "99 AS status"),
        ("600 AS status", "600 AS status"),
        ("'abc' AS status", "'abc' AS status"),
        ("'[1]'::jsonb AS headers", "'[1]' AS headers"),
        (r#"'{"a b": "c"}'::jsonb AS headers"#, r#"'{"a b": "c"}' AS headers"#),
        (r#"'{"a": "b\r\nc: d"}'::jsonb AS headers"#, r#"'{"a": "b\r\nc: d"}' AS headers"#),
        ("'stranger' AS event_id, 200 AS status", "'stranger' AS event_id, 200 AS status"),
    ] {
        let columns = db.sql(postgres, sqlite);
        let id = if columns.contains("event_id") { "" } else { "id AS event_id, " };
        // Only one event's answer is wrong: only it fails.
        let statement = format!("SELECT {id}{columns} FROM event WHERE id = 'b'");
        let results = db.handle(&delivery(vec![sql(&statement)], events()), CHUNK).await;
        let [
            HandlerResult::Applied(None),
            HandlerResult::Failed { permanent: false, reason },
            HandlerResult::Applied(None),
        ] = &results[..]
        else {
            panic!("{columns}: {results:?}")
        };
        assert!(reason.contains("handler answered"), "{columns}: {reason}");
    }
}

/// What a handler returned beside `event_id`, and what must be told of it; `None`: it is an answer.
struct Case {
    postgres: &'static str,
    sqlite: &'static str,
    told: Option<&'static str>,
}

/// The same text on both.
const fn alike(columns: &'static str, told: Option<&'static str>) -> Case {
    Case { postgres: columns, sqlite: columns, told }
}

/// A header object as JSON where there is such a type, and as text.
const fn typed(postgres: &'static str, sqlite: &'static str, told: Option<&'static str>) -> Case {
    Case { postgres, sqlite, told }
}

const STATUS_700: Option<&str> = Some("with status 700, which is not a number from 200 to 599");
const NO_OBJECT: Option<&str> = Some("with headers that are not a JSON object");
const BAD_X: Option<&str> = Some(r#"with a header "x" that HTTP does not allow"#);
const BAD_A_B: Option<&str> = Some(r#"with a header "a b" that HTTP does not allow"#);
const TWICE: Option<&str> = Some("with headers in which a name stands twice");
const STRANGER: Option<&str> = Some(r#"for event "st\"ranger", which it was not given"#);
const BYTES: Option<&str> = Some("with bytes as body, which is text");

/// Answers of all kinds; `id` is the event's.
const CASES: &[Case] = &[
    // Status.
    alike("id AS event_id, 200 AS status", None),
    alike("id AS event_id, 599 AS status", None),
    alike("id AS event_id, '201' AS status", None),
    alike("id AS event_id, CAST(NULL AS integer) AS status", None),
    alike("id AS event_id, 700 AS status", STATUS_700),
    alike("id AS event_id, 199 AS status", Some("with status 199, which is not a number from 200 to 599")),
    alike("id AS event_id, -1 AS status", Some("with status -1, which is not a number from 200 to 599")),
    alike(
        "id AS event_id, 201.0 AS status",
        Some("with status 201.0, which is not a number from 200 to 599"),
    ),
    alike("id AS event_id, 99999999999 AS status", Some("with status 99999999999, which is not")),
    alike("id AS event_id, '+20' AS status", Some(r#"with status "+20", which is not"#)),
    alike("id AS event_id, '0201' AS status", Some(r#"with status "0201", which is not"#)),
    alike("id AS event_id, ' 201' AS status", Some(r#"with status " 201", which is not"#)),
    alike("id AS event_id, '' AS status", Some(r#"with status "", which is not"#)),
    alike("id AS event_id, 'ä\"' AS status", Some(r#"with status "ä\"", which is not"#)),
    // Headers, as JSON and as text.
    typed(
        r#"id AS event_id, CAST('{"Location": "/o", "x": 2, "y": true}' AS jsonb) AS headers"#,
        r#"id AS event_id, json('{"Location": "/o", "x": 2, "y": true}') AS headers"#,
        None,
    ),
    alike(r#"id AS event_id, '{"Location": "/o", "x": 2, "y": true}' AS headers"#, None),
    alike(r#"id AS event_id, '{"x": 1e400, "y": 0.10}' AS headers"#, None),
    typed(
        r#"id AS event_id, CAST('{"x": 1e400}' AS jsonb) AS headers"#,
        r#"id AS event_id, '{"x": 1e400}' AS headers"#,
        None,
    ),
    alike("id AS event_id, '{}' AS headers", None),
    alike("id AS event_id, 'null' AS headers", None),
    typed(
        "id AS event_id, CAST('null' AS jsonb) AS headers",
        "id AS event_id, json('null') AS headers",
        None,
    ),
    alike("id AS event_id, CAST(NULL AS text) AS headers", None),
    alike("id AS event_id, '' AS headers", NO_OBJECT),
    alike("id AS event_id, 'x: y' AS headers", NO_OBJECT),
    alike("id AS event_id, '[1]' AS headers", NO_OBJECT),
    alike("id AS event_id, '\"x\"' AS headers", NO_OBJECT),
    alike("id AS event_id, '{\"x\": \"y\"' AS headers", NO_OBJECT),
    alike("id AS event_id, '{\"x\": \"y\"} {}' AS headers", NO_OBJECT),
    alike(r#"id AS event_id, '{"x": "\ud800"}' AS headers"#, NO_OBJECT),
    alike("id AS event_id, 7 AS headers", NO_OBJECT),
    typed("id AS event_id, CAST('[1]' AS jsonb) AS headers", "id AS event_id, '[1]' AS headers", NO_OBJECT),
    alike(r#"id AS event_id, '{"a b": "c"}' AS headers"#, BAD_A_B),
    typed(
        r#"id AS event_id, CAST('{"z ": "c", "a b": "c"}' AS jsonb) AS headers"#,
        r#"id AS event_id, '{"z ": "c", "a b": "c"}' AS headers"#,
        BAD_A_B,
    ),
    alike(r#"id AS event_id, '{"": "c"}' AS headers"#, Some(r#"with a header "" that HTTP does not allow"#)),
    alike(r#"id AS event_id, '{"ä": "c"}' AS headers"#, Some(r#"with a header "ä" that HTTP"#)),
    alike(r#"id AS event_id, '{"x": "a\r\nb: c"}' AS headers"#, BAD_X),
    alike(r#"id AS event_id, '{"x": "ä"}' AS headers"#, BAD_X),
    alike(r#"id AS event_id, '{"x": "\u007f"}' AS headers"#, BAD_X),
    alike(r#"id AS event_id, '{"x": null}' AS headers"#, BAD_X),
    alike(r#"id AS event_id, '{"x": ["y"]}' AS headers"#, BAD_X),
    alike(r#"id AS event_id, '{"x": {"y": 1}}' AS headers"#, BAD_X),
    typed(
        r#"id AS event_id, CAST('{"x": {"y": 1}}' AS jsonb) AS headers"#,
        r#"id AS event_id, '{"x": {"y": 1}}' AS headers"#,
        BAD_X,
    ),
    alike(r#"id AS event_id, '{"x": "1", "x": "2"}' AS headers"#, TWICE),
    alike(r#"id AS event_id, '{"x": "1", "X": "2"}' AS headers"#, None),
    // Body.
    alike("id AS event_id, 'made' AS body", None),
    alike("id AS event_id, '' AS body", None),
    alike("id AS event_id, 7 AS body", None),
    alike("id AS event_id, CAST(NULL AS text) AS body", None),
    typed(
        "id AS event_id, json_build_object('made', id) AS body",
        "id AS event_id, json_object('made', id) AS body",
        None,
    ),
    typed("id AS event_id, CAST(NULL AS bytea) AS body", "id AS event_id, CAST(NULL AS blob) AS body", None),
    typed(
        "id AS event_id, CAST('made' AS bytea) AS body",
        "id AS event_id, CAST('made' AS blob) AS body",
        BYTES,
    ),
    typed(
        "CAST(id AS bytea) AS event_id",
        "CAST(id AS blob) AS event_id",
        Some("with bytes as event_id, which is text"),
    ),
    // The event.
    alike("'st\"ranger' AS event_id", STRANGER),
    alike("'st\"ranger' AS event_id, 700 AS status", STRANGER),
    alike("'a' AS event_id", Some(r#"for event "a", which it was not given"#)),
    alike("CAST(NULL AS text) AS event_id, 700 AS status, 'x' AS headers", None),
    // Several mistakes: always the same is told.
    alike("id AS event_id, 700 AS status, 'x' AS headers", STATUS_700),
    // Columns that mean nothing here.
    alike("id AS event_id, 'x' AS colour", None),
    // Rows of one event: each must be right, the last one counts.
    alike("id AS event_id, 201 AS status FROM event UNION ALL SELECT id, 202", None),
    alike("id AS event_id, 201 AS status FROM event UNION ALL SELECT id, 700", STATUS_700),
    alike("id AS event_id, 700 AS status FROM event UNION ALL SELECT id, 201", STATUS_700),
];

pub(super) async fn the_same_values_are_answers_on_every_store(dialect: Dialect) {
    let db = Database::new(dialect).await;
    for case in CASES {
        let columns = db.sql(case.postgres, case.sqlite);
        let steps = vec![sql(&format!("SELECT {columns} FROM event"))];
        // Alone, so that every mistake is the event's; `a` is a name that it does not have.
        let results = db.handle(&delivery(steps, vec![event("b", "{}")]), CHUNK).await;
        match (&results[..], case.told) {
            ([HandlerResult::Applied(_)], None) => {}
            ([HandlerResult::Failed { permanent: false, reason }], Some(told)) => {
                let told = format!("the handler answered {told}");
                assert!(reason.starts_with(&told), "{columns}: {reason:?} is not {told:?}");
                assert!(!reason.contains("SQLSTATE"), "{columns}: {reason}");
            }
            (results, told) => panic!("{columns}: {results:?} instead of {told:?}"),
        }
    }
    let twice = sql("SELECT id AS event_id, 201 AS status, 202 AS status FROM event");
    let results = db.handle(&delivery(vec![twice], vec![event("b", "{}")]), CHUNK).await;
    assert!(matches!(&results[..], [HandlerResult::Failed { permanent: false, .. }]), "{results:?}");
}

pub(super) async fn accepted_answers_are_the_same_on_every_store(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let statement = r#"SELECT id AS event_id, '202' AS status, 7 AS body,
        '{"X-B": 2, "location": "/o/1", "x-a": true, "x-c": 0.10, "x-d": 12345678901234567890123}' AS headers
        FROM event WHERE id = 'b'"#;
    let [None, Some(reply), None] = &answers(&db, &[statement]).await[..] else { panic!("b is answered") };
    assert_eq!((reply.status, reply.body.as_deref()), (Some(202), Some(&b"7"[..])));
    let headers: Vec<_> = reply.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let expected = [
        ("x-b", "2"),
        ("location", "/o/1"),
        ("x-a", "true"),
        ("x-c", "0.10"),
        ("x-d", "12345678901234567890123"),
    ];
    assert_eq!(headers, expected);
}
