//! Several processes on one PostgreSQL, directly and through a connection pooler.

use std::sync::Arc;
use std::time::Duration;

use super::{all_at_once, patient, slow_source};
use crate::support::app::order;
use crate::support::http::Connection;
use crate::support::pgbouncer::PgBouncer;
use crate::support::{Backend, Request, Setup, TestDatabase, http};

const BACKEND: Backend = Backend::Postgres;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_that_alternate_between_two_processes_have_one_effect() {
    let one = Setup::new(BACKEND).start().await;
    let two = one.replica();
    for n in 0..30 {
        let request = Request::post("/hooks/shop", order(&format!("evt_{n}")));
        let (first, second) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        first.send(&request).await.expect(200, "applied");
        let again = second.send(&request).await;
        again.expect(200, "replayed");
        first.send(&request).await.expect(200, "replayed");
    }
    assert_eq!(one.database.effects().await, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_under_the_same_load_agree_without_deadlock() {
    let one = Setup::new(BACKEND).start().await;
    let two = one.replica();
    // Both get all events at once, in opposite orders.
    let forward: Vec<_> =
        (0..200).map(|n| Request::post("/hooks/shop", order(&format!("evt_{n}")))).collect();
    let backward: Vec<_> = forward.iter().rev().cloned().collect();
    let (left, right) = tokio::join!(all_at_once(one.public(), forward), all_at_once(two.public(), backward));
    for answer in left.iter().chain(&right) {
        assert!(answer.is_success() || answer.status == 409, "{answer:?}");
    }
    assert_eq!(one.database.effects().await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_in_progress_in_another_process_is_answered_409_and_later_replayed() {
    let one = patient(Setup::new(BACKEND))
        .sources(&slow_source(BACKEND, "slow", 2.0).await)
        .set("inbox.inflight_wait", "\"300ms\"")
        .start()
        .await;
    let two = one.replica();
    let request = Request::post("/hooks/slow", r#"{"id":"evt_1"}"#);
    let mut first = Connection::open(one.public()).await.expect("connects");
    first.write(&request.bytes()).await.expect("writes");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let second = two.send(&request).await;
    second.expect(409, "conflict").expect_problem(409, "request-in-progress");
    assert_eq!(second.header("retry-after"), Some("1"));
    first.answer().await.expect("answers").expect(200, "applied");
    two.send(&request).await.expect(200, "replayed");
    assert_eq!(one.database.effects_of("evt_1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_another_process_replays_its_answer() {
    let one = patient(Setup::new(BACKEND)).sources(&slow_source(BACKEND, "slow", 0.7).await).start().await;
    let two = one.replica();
    let request = Request::post("/hooks/slow", r#"{"id":"evt_1"}"#);
    let mut first = Connection::open(one.public()).await.expect("connects");
    first.write(&request.bytes()).await.expect("writes");
    tokio::time::sleep(Duration::from_millis(200)).await;
    two.send(&request).await.expect(200, "replayed");
    first.answer().await.expect("answers").expect(200, "applied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_migrate_at_the_same_moment_do_not_disturb_each_other() {
    let setup = Setup::new(BACKEND).set("database.acquire_timeout", "\"20s\"");
    let first = setup.start().await;
    let replicas = tokio::task::spawn_blocking(move || {
        let replicas: Vec<_> = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| first.run(&["migrate"]))).collect();
            starting.into_iter().map(|s| s.join().expect("does not panic")).collect()
        });
        drop(first);
        replicas
    });
    for output in replicas.await.expect("does not panic") {
        assert!(output.status.success(), "{}", crate::support::app::said(&output));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_parallel_deliveries_pass_through_pgbouncer_in_transaction_mode() {
    let database = Arc::new(TestDatabase::new(BACKEND).await);
    let Some(pooler) = PgBouncer::before(&database.url) else { return };
    let app = Setup::new(BACKEND).start_through(database, &pooler.url).await;
    for round in 0..4 {
        let requests = (0..50).map(|n| Request::post("/hooks/shop", order(&format!("evt_{round}_{n}"))));
        for answer in all_at_once(app.public(), requests.collect()).await {
            answer.expect(200, "applied");
        }
        let same = vec![Request::post("/hooks/shop", order(&format!("evt_same_{round}"))); 50];
        for answer in all_at_once(app.public(), same).await {
            assert!(answer.is_success(), "{answer:?}");
        }
    }
    assert_eq!(app.database.effects().await, 4 * 50 + 4);
    // One connection alone meets the same server connections, in another order.
    let mut connection = Connection::open(app.public()).await.expect("connects");
    for n in 0..20 {
        let request = Request::post("/hooks/shop", order(&format!("evt_one_{n}")));
        connection.send(&request).await.expect("answers").expect(200, "applied");
    }
    let ready = http::send(app.public(), &Request::new("GET", "/readyz")).await.expect("answers");
    assert_eq!(ready.status, 200);
}
