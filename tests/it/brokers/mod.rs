//! Real brokers: where messages of the outbox go, and where events come from.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "amqp")]
mod queue;
#[cfg(feature = "amqp")]
mod rabbitmq;
#[cfg(all(feature = "amqp", feature = "nats"))]
mod tls;

use std::time::Duration;

use tokio::time::Instant;

use crate::support::app::TestApp;
use crate::support::database::table;
use crate::support::{Backend, Setup, TestDatabase};

const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// A destination `bus`; `more` are further lines. Its pauses are so short that a broker which is slow to start
/// would use up the attempts that last for days with pauses as they are by default.
fn bus(url: &str, more: &str) -> String {
    format!(
        "[[destination]]\nname = \"bus\"\nurl = \"{url}\"\nbackoff_first = \"10ms\"\nbackoff_longest = \"200ms\"\nbreaker_pause = \"20ms\"\nmax_attempts = {}\n{more}\n",
        u32::MAX
    )
}

/// A relay and nothing else, with the destination `bus`.
fn relaying(backend: Backend, url: &str, more: &str) -> Setup {
    Setup::new(backend)
        .command(&["relay"])
        .sources(&bus(url, more))
        .set("relay.poll_every", "\"50ms\"")
        .set("relay.lease", "\"2s\"")
}

/// Inserts messages for `bus`: event type and payload.
async fn write(database: &TestDatabase, messages: &[(&str, &str)]) {
    let table = table(database.backend, "outbox");
    let rows: Vec<String> =
        messages.iter().map(|(kind, payload)| format!("('bus', '{kind}', '{payload}')")).collect();
    let rows = rows.join(", ");
    database.execute(&format!("INSERT INTO {table} (destination, event_type, payload) VALUES {rows}")).await;
}

/// How many messages stand in a state.
async fn in_state(database: &TestDatabase, state: &str) -> i64 {
    let table = table(database.backend, "outbox");
    database.number(&format!("SELECT count(*) FROM {table} WHERE state = '{state}'")).await
}

/// Waits until so many messages stand in a state.
async fn wait_for(app: &TestApp, state: &str, messages: i64) {
    wait_until(app, &format!("{messages} messages are {state}"), async || {
        in_state(&app.database, state).await == messages
    })
    .await;
}

async fn wait_until(app: &TestApp, what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "not in time: {what}\n{}", app.log());
        tokio::time::sleep(POLL).await;
    }
}
