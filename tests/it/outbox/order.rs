//! Order within an aggregate, and only there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::Connection as _;

use super::sink::{Reply, Sink};
use super::{in_state, relaying, table, wait_for, write};
use crate::support::app::said;
use crate::support::{Backend, on_both_stores};

/// Bodies of one aggregate in order of arrival, repetitions of the same one left out.
fn order_of(texts: &[String], aggregate: &str) -> Vec<String> {
    let mut order: Vec<String> = texts.iter().filter(|text| text.starts_with(aggregate)).cloned().collect();
    order.dedup();
    order
}

on_both_stores! {
    async fn an_aggregate_keeps_its_order_through_failures_and_holds_no_other(backend: Backend) {
        // a1 fails for a while; nothing else does.
        let failing = Arc::new(AtomicBool::new(true));
        let fails = failing.clone();
        let sink = Sink::answering(move |request| match request.text() == "a1" && fails.load(Ordering::SeqCst) {
            true => Reply::status(500),
            false => Reply::status(200),
        }).await;
        let one = relaying(backend, &sink.url(), "").start().await;
        let _two = one.replica();
        let payloads: Vec<(String, String)> =
            (1..=20).flat_map(|n| ["a", "b", "c"].map(|of| (format!("{of}{n}"), of.to_owned()))).collect();
        let messages: Vec<_> =
            payloads.iter().map(|(text, of)| (text.as_str(), Some(of.as_str()))).collect();
        write(&one.database, &messages).await;
        wait_for(&one, "sent", 40).await;
        assert!(!sink.texts().contains(&"a2".to_owned()), "a2 waits for a1");
        failing.store(false, Ordering::SeqCst);
        wait_for(&one, "sent", 60).await;
        let texts = sink.texts();
        for aggregate in ["a", "b", "c"] {
            let expected: Vec<String> = (1..=20).map(|n| format!("{aggregate}{n}")).collect();
            assert_eq!(order_of(&texts, aggregate), expected);
        }
    }

    async fn poison_blocks_its_aggregate_until_a_person_decides(backend: Backend) {
        let sink = Sink::answering(|request| Reply::status(if request.text() == "a1" { 422 } else { 200 })).await;
        let app = relaying(backend, &sink.url(), "").start().await;
        write(&app.database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a")), ("b1", Some("b")), ("x", None)]).await;
        wait_for(&app, "sent", 2).await;
        wait_for(&app, "blocking", 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(in_state(&app.database, "sent").await, 2, "a2 and a3 wait");
        let discarded = app.run(&["outbox", "discard", "--destination", "crm", "--dead", "--yes"]);
        assert!(discarded.status.success(), "{}", said(&discarded));
        wait_for(&app, "sent", 4).await;
        assert_eq!(order_of(&sink.texts(), "a"), ["a1", "a2", "a3"]);
    }

    async fn poison_that_is_put_aside_lets_its_aggregate_go_on(backend: Backend) {
        let sink = Sink::answering(|request| Reply::status(if request.text() == "a1" { 422 } else { 200 })).await;
        let app = relaying(backend, &sink.url(), "on_poison = \"dead-letter\"").start().await;
        write(&app.database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a"))]).await;
        wait_for(&app, "sent", 2).await;
        wait_for(&app, "dead", 1).await;
        assert_eq!(sink.texts(), ["a1", "a2", "a3"]);
    }

    async fn what_waits_for_a_message_that_somebody_deleted_goes_on(backend: Backend) {
        let sink = Sink::answering(|request| Reply::status(if request.text() == "a1" { 422 } else { 200 })).await;
        let mut app = relaying(backend, &sink.url(), "").start().await;
        write(&app.database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a"))]).await;
        wait_for(&app, "blocking", 1).await;
        wait_for(&app, "parked", 2).await;
        app.database.execute(&format!("DELETE FROM {} WHERE state = 'blocking'", table(backend, "outbox"))).await;
        // A relay looks when it starts, and from time to time.
        assert_eq!(app.stop(), Some(0));
        app.start();
        wait_for(&app, "sent", 2).await;
        assert_eq!(sink.texts(), ["a1", "a2", "a3"]);
    }

    async fn one_aggregate_with_many_messages_leaves_in_order_through_two_relays(backend: Backend) {
        let sink = Sink::start().await;
        let one = relaying(backend, &sink.url(), "").start().await;
        let _two = one.replica();
        let payloads: Vec<String> = (0..100).map(|n| format!("a{n}")).collect();
        let messages: Vec<_> = payloads.iter().map(|payload| (payload.as_str(), Some("a"))).collect();
        write(&one.database, &messages).await;
        wait_for(&one, "sent", 100).await;
        assert_eq!(sink.texts(), payloads);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_committed_after_one_with_a_higher_sequence_is_delivered() {
    let sink = Sink::start().await;
    let app = relaying(Backend::Postgres, &sink.url(), "").start().await;
    let outbox = table(Backend::Postgres, "outbox");
    let insert = |text: &str| format!("INSERT INTO {outbox} (destination, payload) VALUES ('crm', '{text}')");
    let mut slow = sqlx::PgConnection::connect(&app.database.url).await.expect("connects");
    let mut transaction = slow.begin().await.expect("begins");
    let early = insert("lower");
    sqlx::query(sqlx::AssertSqlSafe(early)).execute(&mut *transaction).await.expect("inserts");
    app.database.execute(&insert("higher")).await;
    wait_for(&app, "sent", 1).await;
    assert_eq!(sink.texts(), ["higher"]);
    transaction.commit().await.expect("commits");
    wait_for(&app, "sent", 2).await;
    assert_eq!(sink.texts(), ["higher", "lower"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_transactions_of_one_aggregate_that_commit_in_reverse_lose_nothing_and_hold_nothing() {
    let sink = Sink::start().await;
    let app = relaying(Backend::Postgres, &sink.url(), "").start().await;
    let outbox = table(Backend::Postgres, "outbox");
    let insert = |text: &str| {
        format!("INSERT INTO {outbox} (destination, aggregate_id, payload) VALUES ('crm', 'a', '{text}')")
    };
    let mut slow = sqlx::PgConnection::connect(&app.database.url).await.expect("connects");
    let mut transaction = slow.begin().await.expect("begins");
    sqlx::query(sqlx::AssertSqlSafe(insert("a1"))).execute(&mut *transaction).await.expect("inserts");
    app.database.execute(&insert("a2")).await;
    wait_for(&app, "sent", 1).await;
    app.database.execute(&insert("a3")).await;
    wait_for(&app, "sent", 2).await;
    transaction.commit().await.expect("commits");
    wait_for(&app, "sent", 3).await;
    app.database.execute(&insert("a4")).await;
    wait_for(&app, "sent", 4).await;
    assert_eq!(sink.texts(), ["a2", "a3", "a1", "a4"]);
}
