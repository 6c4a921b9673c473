//! What hooklatch promises, over real HTTP, against the real program, on both stores.

mod answers;
mod batches;
mod bodies;
mod command_line;
mod contracts;
mod crashes;
mod deduplication;
mod handshakes;
mod idempotency_keys;
mod operators;
mod ordering;
mod outages;
mod replicas;
mod retention;
mod schemes;
mod senders;
mod signatures;
mod transport;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use crate::support::app::{SIGNING_SECRET, TestApp};
use crate::support::signing::hmac_hex;
use crate::support::{Answer, Backend, Request, Setup, http};

/// A sender like GitHub: the signature over the raw body, id and type in headers.
const GITHUB: &str = r#"
[[source]]
name = "github"
verify = { scheme = "hmac", header = "x-hub-signature-256", prefix = "sha256=", secrets = ["never-log-this-secret"] }
event_id = "header:x-github-delivery"
event_type = "header:x-github-event"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#;

/// A delivery of [`GITHUB`].
fn github(delivery: &str, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let signature = format!("sha256={}", hmac_hex(SIGNING_SECRET, &body));
    Request::post("/hooks/github", body)
        .header("x-github-delivery", delivery)
        .header("x-github-event", "push")
        .header("x-hub-signature-256", signature)
}

/// A source whose handler takes `seconds` before it adds its effect.
async fn slow_source(backend: Backend, name: &str, seconds: f64) -> String {
    let pause = match backend {
        Backend::Postgres => format!("(SELECT pg_sleep({seconds})) IS NOT NULL"),
        // SQLite cannot sleep: it counts, for about as long.
        Backend::Sqlite => format!("({}) > 0", sqlite_counting(sqlite_steps_in(seconds).await)),
    };
    format!(
        r#"
[[source]]
name = "{name}"
verify = {{ scheme = "none" }}
event_id = "body:/id"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event WHERE {pause}"
"#
    )
}

fn sqlite_counting(steps: u64) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {steps}) SELECT max(i) FROM n"
    )
}

/// How far SQLite counts in this time, on this machine, as busy as it is now.
async fn sqlite_steps_in(seconds: f64) -> u64 {
    const TRIAL: u64 = 200_000;
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.expect("SQLite opens");
    let started = Instant::now();
    let trial = sqlx::query(AssertSqlSafe(sqlite_counting(TRIAL))).fetch_one(&mut connection).await;
    trial.expect("SQLite counts");
    (TRIAL as f64 * seconds / started.elapsed().as_secs_f64()) as u64
}

/// Limits that a slow handler stays within, however busy the machine is.
fn patient(setup: Setup) -> Setup {
    setup.set("inbox.handler_timeout", "\"20s\"").set("inbox.deadline", "\"25s\"")
}

/// The ledger is written beside the hot path: it may take a moment.
const LEDGER_WITHIN: Duration = Duration::from_secs(10);

/// The lines of the ledger that a query finds, once there are so many.
async fn ledger(app: &TestApp, query: &str, lines: usize) -> Vec<serde_json::Value> {
    let deadline = Instant::now() + LEDGER_WITHIN;
    loop {
        let answer = app.admin_get(&format!("/api/v1/deliveries?{query}")).await;
        let found = answer.json()["deliveries"].as_array().cloned().unwrap_or_default();
        if found.len() >= lines {
            return found;
        }
        assert!(Instant::now() < deadline, "the ledger has no {lines} lines for {query}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends all of these at the same time, each on a connection of its own.
async fn all_at_once(address: SocketAddr, requests: Vec<Request>) -> Vec<Answer> {
    let sent = requests.into_iter().map(|request| {
        tokio::spawn(async move { http::send(address, &request).await.expect("every request is answered") })
    });
    let mut answers = Vec::new();
    for answer in sent.collect::<Vec<_>>() {
        answers.push(answer.await.expect("sending does not panic"));
    }
    answers
}
