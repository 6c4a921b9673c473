//! The database goes away and comes back, under load, and hooklatch is not restarted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::GITHUB;
use crate::support::app::order;
use crate::support::cluster::Cluster;
use crate::support::{Answer, Backend, Request, Setup, TestDatabase, http};

const SENDERS: usize = 16;
const OUTAGE: Duration = Duration::from_secs(5);
const RECOVERS_WITHIN: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_database_is_answered_503_and_recovery_needs_no_restart() {
    let cluster = tokio::task::spawn_blocking(Cluster::new).await.expect("a cluster starts");
    let database = Arc::new(TestDatabase::at(&cluster.url).await);
    let app = Setup::new(Backend::Postgres)
        .and_source(GITHUB)
        .set("inbox.deadline", "\"2s\"")
        .set("inbox.handler_timeout", "\"1s\"")
        .set("inbox.inflight_wait", "\"1s\"")
        .start_on(database)
        .await;

    let over = Arc::new(AtomicBool::new(false));
    let address = app.public();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let over = over.clone();
            tokio::spawn(async move {
                let mut seen = Vec::<(String, Answer)>::new();
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let id = format!("evt_{sender}_{n}");
                    let request = Request::post("/hooks/shop", order(&id));
                    let answer = http::send(address, &request).await.expect("every request is answered");
                    let pause = if answer.is_success() { 5 } else { 100 };
                    seen.push((id, answer));
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                seen
            })
        })
        .collect();

    tokio::time::sleep(Duration::from_secs(1)).await;
    let cluster = stopped(cluster, "immediate").await;
    // Longer than a delivery may take: a shorter outage is waited for, and nobody notices it.
    tokio::time::sleep(OUTAGE).await;
    let ready = http::send(address, &Request::new("GET", "/readyz")).await.expect("answers");
    assert_eq!(ready.status, 503, "not ready without its database");
    let alive = http::send(address, &Request::new("GET", "/healthz")).await.expect("answers");
    assert_eq!(alive.status, 200, "but alive: a restart would not help");
    let unsigned = http::send(address, &Request::post("/hooks/github", "{}")).await.expect("answers");
    unsigned.expect(401, "unverified");
    let cluster = started(cluster).await;

    let probe = Request::post("/hooks/shop", order("evt_probe"));
    let deadline = Instant::now() + RECOVERS_WITHIN;
    while !http::send(address, &probe).await.expect("answers").is_success() {
        assert!(Instant::now() < deadline, "no recovery within {RECOVERS_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    over.store(true, Ordering::Relaxed);

    let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
    for sender in senders {
        for (id, answer) in sender.await.expect("a sender does not panic") {
            if answer.is_success() {
                acknowledged.push(id);
            } else {
                answer.expect(503, "unavailable").expect_problem(503, "unavailable");
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
                refused.push(id);
            }
        }
    }
    assert!(!refused.is_empty(), "the outage was noticed");
    let there = app.database.column("SELECT event_id FROM effects").await;
    let lost: Vec<_> = acknowledged.iter().filter(|id| !there.contains(id)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    for id in &refused {
        let answer = app.deliver("shop", order(id)).await;
        assert!(answer.is_success(), "{answer:?}");
    }
    let expected = acknowledged.len() + refused.len() + 1;
    assert_eq!(app.database.effects().await, i64::try_from(expected).expect("few"), "each exactly once");
    drop(app);
    drop(cluster);
}

async fn stopped(cluster: Cluster, mode: &'static str) -> Cluster {
    let stopping = tokio::task::spawn_blocking(move || {
        cluster.stop(mode);
        cluster
    });
    stopping.await.expect("it stops")
}

async fn started(cluster: Cluster) -> Cluster {
    let starting = tokio::task::spawn_blocking(move || {
        cluster.start();
        cluster
    });
    starting.await.expect("it starts")
}
