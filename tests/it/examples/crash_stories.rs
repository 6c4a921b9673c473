//! `examples/crash_stories`: what a crash costs each relay, every number of it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};

use super::example;
use crate::support::app::said;
use crate::support::cluster::Cluster;
use crate::support::database::server_url;
use crate::support::{Backend, on_both_stores};

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// Orders, POSTs, taken again, effects without dedup, effects with dedup, lost.
type Cost = [u32; 6];

const REFUSED: [Cost; 5] = [
    // The whole batch in one transaction: the 30 that were sent are sent again.
    [50, 81, 30, 80, 50, 0],
    // One transaction an event.
    [50, 51, 0, 50, 50, 0],
    // Mark, then publish: the 31st is lost.
    [50, 50, 0, 49, 49, 1],
    // hooklatch, one at a time and 16 at a time.
    [50, 51, 0, 50, 50, 0],
    [50, 51, 0, 50, 50, 0],
];
const KILLED: [Cost; 5] = [
    [50, 81, 31, 81, 50, 0],
    [50, 51, 1, 51, 50, 0],
    [50, 49, 0, 49, 49, 1],
    [50, 51, 1, 51, 50, 0],
    [50, 66, 16, 66, 50, 0],
];
const ORDER_O7: [Cost; 5] = [
    // Rolled back: neither order nor event.
    [0, 0, 0, 0, 0, 0],
    // No outbox: an order that nobody hears of.
    [1, 0, 0, 0, 0, 1],
    // The outbox keeps it.
    [1, 1, 0, 1, 1, 0],
    // Two deliveries: two effects without dedup, one with it.
    [1, 2, 1, 2, 1, 0],
    // Mark, then publish.
    [1, 0, 0, 0, 0, 1],
];

/// The numbers of every row that has some.
fn costs(text: &str) -> Vec<Cost> {
    let cells = |line: &str| -> Option<Cost> {
        let numbers: Vec<u32> =
            line.trim_matches('│').split('┆').skip(1).filter_map(|cell| cell.trim().parse().ok()).collect();
        numbers.try_into().ok()
    };
    text.lines().filter(|line| line.starts_with('│')).filter_map(cells).collect()
}

on_both_stores! {
    async fn each_relay_costs_what_the_documents_say(backend: Backend) {
        let mut command = Command::new(example("crash_stories"));
        command.env_clear();
        if backend == Backend::Postgres {
            command.env("DATABASE_URL", server_url());
        }
        let output = command.output().expect("the example can be run");
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(costs(&text), [REFUSED, KILLED, ORDER_O7].concat(), "{text}");
        assert!(text.contains("Without dedup: two deliveries of E42; two effects."), "{text}");
        assert!(text.contains("two deliveries of E42; one committed consumer effect."), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "wider than a terminal: {line}");
        }
    }
}

/// A story's databases on this server.
async fn databases(server: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'crash_stories_%'";
    sqlx::query_scalar(count).fetch_one(server).await.expect("counts")
}

/// On a server of its own: on the shared one others tell stories too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_that_fails_or_is_interrupted_leaves_no_database_behind() {
    let cluster = Cluster::new();
    let mut server = PgConnection::connect(&cluster.url).await.expect("connects");
    for ending in ["a story fails", "INT", "TERM", "HUP"] {
        let mut command = Command::new(example("crash_stories"));
        command.env_clear().env("DATABASE_URL", &cluster.url);
        let story =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the example can be run");
        let deadline = Instant::now() + PATIENCE;
        while databases(&mut server).await == 0 {
            assert!(Instant::now() < deadline, "{ending}: no story began");
            tokio::time::sleep(POLL).await;
        }
        if ending == "a story fails" {
            // Whatever they are doing, their connections are gone.
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname LIKE 'crash_stories_%'";
            while sqlx::query_scalar::<_, i64>(end).fetch_one(&mut server).await.expect("ends them") == 0 {
                assert!(Instant::now() < deadline, "no story has a connection");
                tokio::time::sleep(POLL).await;
            }
        } else {
            let pid = story.id().to_string();
            let sent =
                Command::new("kill").args([&format!("-{ending}"), &pid]).status().expect("kill can be run");
            assert!(sent.success(), "{ending}");
        }
        let output = story.wait_with_output().expect("it ends");
        assert!(!output.status.success() && output.status.code().is_some(), "{ending}: {}", said(&output));
        assert_eq!(databases(&mut server).await, 0, "{ending}: {}", said(&output));
    }
}
