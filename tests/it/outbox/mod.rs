//! The outbox and its relay, as real processes against a receiver that is not ours.

mod contract;
mod crashes;
mod delivery;
mod forwarding;
mod limits;
mod lockstep;
mod order;
mod outage;
mod sink;

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use crate::support::app::TestApp;
use crate::support::database::table;
use crate::support::{Backend, Setup, TestDatabase};

const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// A destination `crm`; `more` are further lines.
fn crm(url: &str, more: &str) -> String {
    format!(
        "[[destination]]\nname = \"crm\"\nurl = \"{url}\"\nbackoff_first = \"10ms\"\nbackoff_longest = \"50ms\"\nbreaker_pause = \"10ms\"\n{more}\n"
    )
}

/// A relay and nothing else, with the destination `crm`.
fn relaying(backend: Backend, url: &str, more: &str) -> Setup {
    Setup::new(backend)
        .command(&["relay"])
        .sources(&crm(url, more))
        .set("relay.poll_every", "\"50ms\"")
        .set("relay.lease", "\"2s\"")
}

/// Inserts messages for `crm` as a sender in any language would, one row each, in this order.
async fn write(database: &TestDatabase, messages: &[(&str, Option<&str>)]) {
    let table = table(database.backend, "outbox");
    let mut insert = format!("INSERT INTO {table} (destination, payload, aggregate_id) VALUES ");
    for (place, (payload, aggregate)) in messages.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        let aggregate = aggregate.map_or("NULL".to_owned(), |id| format!("'{id}'"));
        write!(insert, "{comma}('crm', '{payload}', {aggregate})").expect("a String takes text");
    }
    database.execute(&insert).await;
}

/// How many messages stand in a state.
async fn in_state(database: &TestDatabase, state: &str) -> i64 {
    let table = table(database.backend, "outbox");
    database.number(&format!("SELECT count(*) FROM {table} WHERE state = '{state}'")).await
}

/// Waits until so many messages stand in a state.
async fn wait_for(app: &TestApp, state: &str, messages: i64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = in_state(&app.database, state).await;
        if now == messages {
            return;
        }
        assert!(Instant::now() < deadline, "{now} of {messages} messages are {state}:\n{}", app.log());
        tokio::time::sleep(POLL).await;
    }
}
