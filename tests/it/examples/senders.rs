//! A sender's own application, in Python and in Rust: it writes orders and messages in its own
//! transactions, and runs only `hooklatch relay`. What arrives is what was committed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::example;
use super::orders::{SHOP_SECRET, start as start_receiver};
use crate::support::app::{TestApp, said};
use crate::support::{Backend, Setup, TestDatabase, on_both_stores, until};

const RELAY: &str = include_str!("../../../examples/orders/relay.toml");
const OUTBOX_GUIDE: &str = include_str!("../../../docs/outbox.md");

/// A relay on the sender's database, with the example's destination at the receiver's address.
async fn start_relay(backend: Backend, receiver: &TestApp) -> TestApp {
    let destination = &RELAY[RELAY.find("[[destination]]").expect("the example has a destination")..];
    let destination = destination
        .replace("127.0.0.1:8080", &receiver.public().to_string())
        .replace("env:SHOP_SECRET", SHOP_SECRET);
    assert!(!destination.contains("env:"), "a secret that the tests do not know");
    let poll = ("relay.poll_every", "\"50ms\"");
    Setup::new(backend).command(&["relay"]).sources(&destination).set(poll.0, poll.1).start().await
}

/// Runs the sender for `database`.
fn place(sender: &[PathBuf], database: &TestDatabase, arguments: &[&str]) -> Output {
    let (program, first) = sender.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(first).args(arguments).env("SENDER_DATABASE_URL", &database.url);
    command.output().expect("the sender can be run")
}

/// Places orders that are committed and orders that are not; the receiver has those that are, once.
async fn what_is_committed_arrives(backend: Backend, sender: &[PathBuf], ways: &[&[&str]]) {
    let receiver = start_receiver(backend).await;
    let relay = start_relay(backend, &receiver).await;
    let mut placed = Vec::new();
    for way in ways {
        for fail in [None, Some("between"), Some("after"), None] {
            let failing = fail.map_or(vec![], |when| vec!["--fail", when]);
            let output = place(sender, &relay.database, &[*way, &failing].concat());
            assert_eq!(output.status.success(), fail.is_none(), "{way:?} {fail:?}: {}", said(&output));
            if fail.is_none() {
                placed.push(String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned());
            }
        }
    }
    placed.sort();
    let orders = "SELECT CAST(id AS text) FROM orders ORDER BY 1";
    until("the orders arrive", async || receiver.database.column(orders).await.len() == placed.len()).await;
    assert_eq!(receiver.database.column(orders).await, placed);
    assert_eq!(relay.database.column("SELECT id FROM placed_orders ORDER BY id").await, placed);
    // Neither an order nor a message stayed of those that failed.
    assert_eq!(relay.database.rows("outbox").await, i64::try_from(placed.len()).expect("few"));
    let checked = relay.run(&["check"]);
    assert!(checked.status.success(), "{}", said(&checked));
}

/// Python with psycopg, as `scripts/test` has made it; `None` where there is none.
fn python() -> Option<PathBuf> {
    let python = std::env::var("HOOKLATCH_TEST_PYTHON")
        .expect("HOOKLATCH_TEST_PYTHON is not set: run the tests with scripts/test");
    if python == "absent" {
        eprintln!("NOT TESTED: Python with psycopg is absent");
        return None;
    }
    Some(python.into())
}

/// The first block in this language under a heading of the outbox guide.
fn snippet(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let from = OUTBOX_GUIDE.find(&fence).unwrap_or_else(|| panic!("no {language} in docs/outbox.md"));
    let code = &OUTBOX_GUIDE[from + fence.len()..];
    &code[..code.find("```").expect("a fence has an end")]
}

on_both_stores! {
    async fn a_sender_in_rust_leaves_order_and_message_or_neither(backend: Backend) {
        what_is_committed_arrives(backend, &[example("orders_sender")], &[&[]]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_in_python_leaves_order_and_message_or_neither() {
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/orders/sender.py");
    let ways: [&[&str]; 2] = [&["--with", "insert"], &["--with", "enqueue"]];
    what_is_committed_arrives(Backend::Postgres, &[python, script], &ways).await;
}

/// What the guide says to write is legal, and leaves an order and its message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guides_snippets_for_sql_and_python_work_as_printed() {
    let receiver = start_receiver(Backend::Postgres).await;
    let relay = start_relay(Backend::Postgres, &receiver).await;
    let database = &relay.database;
    database.execute("CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL)").await;
    let transaction =
        snippet("sql").trim().strip_prefix("BEGIN;").and_then(|rest| rest.strip_suffix("COMMIT;"));
    let statements: Vec<_> = transaction.expect("it is a transaction").trim().split_terminator(';').collect();
    database.in_transaction(&statements, true).await;
    if let Some(python) = python() {
        let program = format!(
            "import json, psycopg, sys\nconn = psycopg.connect(sys.argv[1], autocommit=True)\norder_id = '8'\n{}",
            snippet("python")
        );
        let output = Command::new(python).args(["-c", &program, &database.url]).output();
        let output = output.expect("Python can be run");
        assert!(output.status.success(), "{}", said(&output));
    }
    let messages = "SELECT aggregate_id || ' ' || event_type || ' ' || convert_from(payload, 'UTF8')
                    FROM hooklatch.outbox ORDER BY sequence";
    let said = [r#"7 order_created {"order_id": "7"}"#, r#"8 order_created {"order_id": "8"}"#];
    let orders = database.number("SELECT count(*) FROM orders").await;
    assert_eq!(database.column(messages).await, said[..usize::try_from(orders).expect("few")]);
}

/// The statements of the snippets in languages that are not here, with values in place of parameters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guides_statements_for_java_and_go_are_legal() {
    let receiver = start_receiver(Backend::Postgres).await;
    let relay = start_relay(Backend::Postgres, &receiver).await;
    for language in ["java", "go"] {
        let code = snippet(language);
        let from = code.find("INSERT INTO hooklatch.outbox").expect("a statement");
        let statement = &code[from..from + code[from..].find(['"', '`']).expect("a string has an end")];
        let statement = statement.replacen("?", "$1", 1).replacen("?", "$2", 1);
        relay.database.execute(&statement.replace("$1", "'{}'").replace("$2", "'7'")).await;
    }
    assert_eq!(relay.database.rows("outbox").await, 2);
}
