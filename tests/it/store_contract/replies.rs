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
