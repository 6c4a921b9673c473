//! Statements as operators write them, and what is made of each.

use super::*;

const CTE: &str = "event AS (…)";

fn handler(sql: &str) -> SqlHandler {
    SqlHandler::new(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn composed(sql: &str) -> String {
    handler(sql).compose(0, || CTE.into()).to_owned()
}

#[test]
fn the_event_cte_stands_before_the_statements_own() {
    assert_eq!(composed("SELECT id FROM event;"), "WITH event AS (…)\nSELECT id FROM event");
    assert_eq!(
        composed("-- why\nwith a as (select 1) insert into t select * from a"),
        "WITH event AS (…),\na as (select 1)\ninsert into t select * from a"
    );
    assert_eq!(
        composed("WITH RECURSIVE a(n) AS NOT MATERIALIZED (SELECT 1), \"b c\" AS (SELECT 2) TABLE a"),
        "WITH RECURSIVE event AS (…),\na(n) AS NOT MATERIALIZED (SELECT 1), \"b c\" AS (SELECT 2)\nTABLE a"
    );
}

#[test]
fn rows_can_be_selected_from() {
    let selected =
        |sql: &str| handler(sql).compose_select(0, || CTE.into(), "x", "SELECT 1 FROM x").to_owned();
    assert_eq!(
        selected("SELECT id FROM event ; -- done"),
        "WITH event AS (…)\n, x AS (\nSELECT id FROM event\n)\nSELECT 1 FROM x"
    );
    assert_eq!(
        selected("WITH a AS (SELECT 1) -- why\nDELETE FROM t RETURNING id"),
        "WITH event AS (…),\na AS (SELECT 1) -- why\n, x AS (\nDELETE FROM t RETURNING id\n)\nSELECT 1 FROM x"
    );
}

#[test]
fn rows_come_from_the_top_level_verb_or_returning() {
    for sql in [
        "SELECT 1",
        "(SELECT 1)",
        "VALUES (1)",
        "TABLE x",
        "INSERT INTO t SELECT id FROM event RETURNING id",
        "WITH a AS (INSERT INTO t SELECT id FROM event RETURNING id) SELECT id FROM a",
        "WITH insert AS (SELECT 1), b AS (SELECT 2) SELECT 1",
        "WITH RECURSIVE a(x, y) AS (SELECT 1, 2) SEARCH DEPTH FIRST BY x, y SET z SELECT x FROM a",
    ] {
        assert!(handler(sql).returns_rows(), "{sql}");
    }
    for sql in [
        "INSERT INTO t SELECT id FROM event -- RETURNING id",
        "INSERT INTO t SELECT ' RETURNING ' FROM event",
        "WITH a AS (DELETE FROM x RETURNING id) INSERT INTO t SELECT id FROM a",
        "WITH a AS (SELECT 1), b AS (SELECT 2) UPDATE t SET x = 1",
        "INSERT INTO t VALUES ($$ RETURNING $$, $q$ ; $$ $1 $q$, E'\\' RETURNING ; ', U&'x')",
        "DELETE FROM t USING event WHERE t.id = event.id /* RETURNING /* nested */ x */",
    ] {
        assert!(!handler(sql).returns_rows(), "{sql}");
    }
}

#[test]
fn what_is_not_one_statement_over_events_is_refused() {
    let refused = |sql: &str| SqlHandler::new(sql).expect_err(sql);
    for sql in ["", "  -- nothing\n", ";", "/* x */ ;;", "WITH", "WITH a AS (SELECT 1)"] {
        assert_eq!(refused(sql), SqlHandlerError::Empty, "{sql}");
    }
    assert_eq!(refused("SELECT 1; SELECT 2"), SqlHandlerError::SeveralStatements);
    for sql in [
        "WITH event AS (SELECT 1) SELECT 1",
        "WITH a AS (SELECT 1), Event(x) AS MATERIALIZED (SELECT 1) SELECT 1",
        "SELECT * FROM (WITH \"event\" AS (SELECT 1) SELECT 1) x",
    ] {
        assert_eq!(refused(sql), SqlHandlerError::EventCte, "{sql}");
    }
    for (sql, name) in [
        ("SELECT $1", "$1"),
        ("SELECT $name", "$name"),
        ("INSERT INTO t VALUES (?)", "?"),
        ("SELECT ?1", "?1"),
        ("SELECT :id, 1", ":id"),
        ("SELECT @id", "@id"),
    ] {
        assert_eq!(refused(sql), SqlHandlerError::Parameter(name.into()), "{sql}");
    }
    for (sql, verb) in [("CREATE TABLE t (x int)", "CREATE"), ("COMMIT", "COMMIT"), ("CALL p()", "CALL")] {
        assert_eq!(refused(sql), SqlHandlerError::NotOverEvents(verb.into()), "{sql}");
    }
    for sql in ["SELECT 'x", "SELECT \"x", "SELECT $a$ x", "SELECT /* x", "SELECT (1", "SELECT 1)"] {
        assert!(matches!(refused(sql), SqlHandlerError::Unterminated(_)), "{sql}");
    }
}

#[test]
fn operators_and_quoted_text_are_no_parameters() {
    for sql in [
        "SELECT id FROM event WHERE data ? 'key' AND data -> 'a' ?| array['b']",
        "SELECT (ARRAY[1, 2, 3])[1:2], id::text, data @> '{}' FROM event",
        "SELECT '$1 ? :x ;', \"a;$1\", $$ ? $1 ; $$ FROM event",
        "SELECT 1 -- $1 ; ?",
    ] {
        handler(sql);
    }
}

#[test]
fn only_the_columns_that_can_be_mentioned_are_provided() {
    const ALL: [&str; 3] = ["data", "payload", "headers"];
    let cases: [(&str, &[&str]); 15] = [
        ("INSERT INTO t SELECT id, 'payload', count(*) FROM event", &[]),
        ("INSERT INTO t SELECT DATA ->> 'x', 2 * 3 FROM event", &["data"]),
        ("INSERT INTO t SELECT e.id FROM event AS e JOIN x ON x.id = e.id", &[]),
        ("UPDATE t SET a = event.id FROM event WHERE t.id = event.id", &[]),
        ("SELECT \"data\", payload FROM event", &["data", "payload"]),
        ("SELECT headers ->> 'x' FROM event", &["headers"]),
        ("SELECT * FROM event", &ALL),
        ("SELECT e.* FROM event e", &ALL),
        ("SELECT to_jsonb(event) FROM event", &ALL),
        ("SELECT to_jsonb(e) FROM event e", &ALL),
        ("SELECT a, b FROM event AS e(a, b)", &ALL),
        ("SELECT x FROM t NATURAL JOIN event", &ALL),
        ("WITH a AS (TABLE event) SELECT 1", &ALL),
        ("SELECT U&\"d\\0061ta\" FROM event", &ALL),
        ("SELECT count(*) FROM t, event", &ALL),
    ];
    for (sql, expected) in cases {
        let handler = handler(sql);
        let mentioned: Vec<_> = ALL.into_iter().filter(|column| handler.mentions(column)).collect();
        assert_eq!(mentioned, expected, "{sql}");
    }
}

#[test]
fn a_column_that_nobody_knows_counts_as_mentioned() {
    assert!(handler("SELECT id FROM event").mentions("later"));
    assert!(!handler("SELECT id FROM event").mentions("received_at"));
}
