//! What a destination gets, and what follows from its answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use super::sink::{Reply, Sink};
use super::{crm, in_state, relaying, table, wait_for, write};
use crate::support::app::said;
use crate::support::pgbouncer::PgBouncer;
use crate::support::{Backend, TestDatabase, on_both_stores, signing};

/// The secret of the signed destination; the tests make its signatures without the product's code.
const SECRET: &str = "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0";

on_both_stores! {
    async fn of_two_relays_each_delivers_its_share_of_500_messages_once(backend: Backend) {
        // A receiver that takes its time, so that one relay alone does not have all before the other looks.
        let sink = Sink::answering(|_| Reply::status(200).after(Duration::from_millis(60))).await;
        let one = relaying(backend, &sink.url(), "").set("relay.lease", "\"30s\"").start().await;
        let two = one.replica();
        let payloads: Vec<String> = (0..500).map(|n| format!("message {n}")).collect();
        let messages: Vec<_> = payloads.iter().map(|payload| (payload.as_str(), None)).collect();
        write(&one.database, &messages).await;
        wait_for(&one, "sent", 500).await;
        let mut texts = sink.texts();
        assert_eq!(texts.len(), 500, "each once");
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 500);
        for relay in [&one, &two] {
            let metrics = relay.admin_get("/metrics").await.text();
            let sent = metrics.lines().find(|line| line.contains("attempts_total") && line.contains("\"sent\""));
            let sent: u32 = sent.and_then(|l| l.rsplit(' ').next()).and_then(|n| n.parse().ok()).expect("a counter");
            assert!(sent >= 50, "both are busy, but one sent {sent}");
        }
    }

    async fn a_message_goes_out_byte_for_byte_with_its_headers(backend: Backend) {
        let sink = Sink::start().await;
        let more = "headers = { authorization = \"Bearer never-log-this-token\" }";
        let app = relaying(backend, &sink.url(), more).start().await;
        let outbox = table(backend, "outbox");
        app.database
            .execute(&format!(
                "INSERT INTO {outbox} (destination, payload, content_type, headers, traceparent) VALUES
                 ('crm', ' {{\"n\": 1.10}}\n', 'application/cloudevents+json', '{{\"X-Tenant\": \"north\", \"x-n\": 7}}',
                  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')"
            ))
            .await;
        let received = sink.wait_for(1).await.remove(0);
        assert_eq!(received.target, "/in?from=test");
        assert_eq!(received.text(), " {\"n\": 1.10}\n");
        for (name, value) in [
            ("content-type", "application/cloudevents+json"),
            ("x-tenant", "north"),
            ("x-n", "7"),
            ("authorization", "Bearer never-log-this-token"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("hooklatch-hops", "1"),
        ] {
            assert_eq!(received.header(name), value, "{name}");
        }
        wait_for(&app, "sent", 1).await;
        let id = app.database.column(&format!("SELECT CAST(id AS text) FROM {outbox}")).await.remove(0);
        assert_eq!(received.id(), id);
    }

    async fn after_an_outage_the_id_is_the_same_and_the_signature_is_fresh(backend: Backend) {
        let up = Arc::new(AtomicBool::new(false));
        let is_up = up.clone();
        let sink = Sink::answering(move |_| Reply::status(if is_up.load(Ordering::SeqCst) { 200 } else { 500 })).await;
        let more = format!("sign = {{ scheme = \"standard-webhooks\", secrets = [\"{SECRET}\"] }}");
        let app = relaying(backend, &sink.url(), &more).start().await;
        write(&app.database, &[("{}", None)]).await;
        let first = sink.wait_for(1).await.remove(0);
        // A tolerance of a second: what was signed before the outage would be refused after it.
        tokio::time::sleep(Duration::from_millis(2100)).await;
        let before = sink.received().len();
        up.store(true, Ordering::SeqCst);
        let last = sink.wait_for(before + 1).await.pop().expect("one at least");
        wait_for(&app, "sent", 1).await;
        for request in [&first, &last] {
            assert_eq!(request.id(), first.id());
            assert_eq!(request.header("webhook-id"), first.id());
            let timestamp = request.header("webhook-timestamp");
            let age = request.unix - timestamp.parse::<i64>().expect("seconds");
            assert!((0..=1).contains(&age), "signed {age} s before it arrived");
            let expected = signing::standard_webhooks(SECRET, first.id(), timestamp, b"{}");
            assert_eq!(request.header("webhook-signature"), expected);
        }
        assert_ne!(first.header("webhook-timestamp"), last.header("webhook-timestamp"));
    }

    async fn what_is_refused_is_a_dead_letter_with_its_attempts(backend: Backend) {
        let status = Arc::new(AtomicU16::new(500));
        let now = status.clone();
        let sink = Sink::answering(move |_| Reply::status(now.load(Ordering::SeqCst))).await;
        let app = relaying(backend, &sink.url(), "breaker_failures = 1000").start().await;
        write(&app.database, &[("{}", None)]).await;
        sink.wait_for(2).await;
        status.store(422, Ordering::SeqCst);
        wait_for(&app, "dead", 1).await;
        let attempts = table(backend, "outbox_attempts");
        let answered = app.database.column(&format!("SELECT CAST(status AS text) FROM {attempts} ORDER BY ended_at, attempt")).await;
        assert!(answered.len() >= 3 && answered.last().is_some_and(|status| status == "422"), "{answered:?}");
        let answers = app.database.number(&format!("SELECT count(*) FROM {attempts} WHERE CAST(length(answer) AS bigint) = 4")).await;
        assert_eq!(answers, i64::try_from(answered.len()).expect("few"));

        let before = sink.received().len();
        status.store(200, Ordering::SeqCst);
        let id = sink.received()[0].id().to_owned();
        let retried = app.run(&["outbox", "retry", &id]);
        assert!(retried.status.success(), "{}", said(&retried));
        wait_for(&app, "sent", 1).await;
        assert_eq!(sink.received()[before].id(), id);
    }

    async fn a_redirect_is_a_failure_and_not_followed(backend: Backend) {
        let sink = Sink::answering(|_| Reply::status(302).with("location: /elsewhere\r\n")).await;
        let app = relaying(backend, &sink.url(), "max_attempts = 2").start().await;
        write(&app.database, &[("{}", None)]).await;
        wait_for(&app, "dead", 1).await;
        assert!(sink.received().iter().all(|request| request.target == "/in?from=test"));
        assert_eq!(sink.received().len(), 2);
    }

    async fn gone_pauses_the_destination_until_somebody_resumes_it(backend: Backend) {
        let gone = Arc::new(AtomicBool::new(true));
        let is_gone = gone.clone();
        let sink = Sink::answering(move |_| Reply::status(if is_gone.load(Ordering::SeqCst) { 410 } else { 200 })).await;
        let app = relaying(backend, &sink.url(), "concurrency = 1").start().await;
        write(&app.database, &[("1", None)]).await;
        sink.wait_for(1).await;
        let states = table(backend, "destinations");
        let paused = format!("SELECT count(*) FROM {states} WHERE name = 'crm' AND paused_at IS NOT NULL");
        while app.database.number(&paused).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        write(&app.database, &[("2", None)]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(sink.received().len(), 1, "nothing leaves while it is paused");
        gone.store(false, Ordering::SeqCst);
        let resumed = app.run(&["destinations", "resume", "crm"]);
        assert!(resumed.status.success(), "{}", said(&resumed));
        wait_for(&app, "sent", 2).await;
    }

    async fn who_resumes_a_destination_need_not_wait_for_the_breaker(backend: Backend) {
        let failing = Arc::new(AtomicBool::new(true));
        let fails = failing.clone();
        let sink = Sink::answering(move |_| Reply::status(if fails.load(Ordering::SeqCst) { 500 } else { 200 })).await;
        let url = sink.url();
        let crm = format!("[[destination]]\nname = \"crm\"\nurl = \"{url}\"\nbackoff_first = \"10ms\"\nbreaker_failures = 1\nbreaker_pause = \"15m\"\n");
        let app = relaying(backend, &url, "").sources(&crm).start().await;
        write(&app.database, &[("1", None)]).await;
        app.logs("left alone after failures", 1).await;
        failing.store(false, Ordering::SeqCst);
        let resumed = app.run(&["destinations", "resume", "crm"]);
        assert!(resumed.status.success(), "{}", said(&resumed));
        wait_for(&app, "sent", 1).await;
    }

    async fn retry_after_holds_the_message_and_the_destination(backend: Backend) {
        let first = AtomicBool::new(true);
        let sink = Sink::answering(move |_| match first.swap(false, Ordering::SeqCst) {
            true => Reply::status(429).with("retry-after: 1\r\n"),
            false => Reply::status(200),
        }).await;
        let app = relaying(backend, &sink.url(), "concurrency = 1").start().await;
        write(&app.database, &[("1", None)]).await;
        sink.wait_for(1).await;
        write(&app.database, &[("2", None)]).await;
        let received = sink.wait_for(3).await;
        for later in &received[1..] {
            let waited = later.at - received[0].at;
            assert!(waited >= Duration::from_millis(950), "{} came after {waited:?}", later.text());
        }
        wait_for(&app, "sent", 2).await;
    }

    async fn a_dead_destination_does_not_starve_a_live_one(backend: Backend) {
        let sink = Sink::start().await;
        // Nobody listens there.
        let dead = crm("http://127.0.0.1:9/", "");
        let live = crm(&sink.url(), "").replace("\"crm\"", "\"live\"");
        let app = relaying(backend, "http://127.0.0.1:9/", "").sources(&format!("{dead}{live}")).start().await;
        let outbox = table(backend, "outbox");
        let payloads: Vec<_> = (0..2000).map(|_| ("{}", None)).collect();
        write(&app.database, &payloads).await;
        app.database.execute(&format!("INSERT INTO {outbox} (destination, payload) VALUES ('live', '1'), ('live', '2')")).await;
        sink.wait_for(2).await;
        wait_for(&app, "sent", 2).await;
        assert_eq!(in_state(&app.database, "dead").await, 0);
    }

    async fn a_message_that_goes_in_circles_is_given_up(backend: Backend) {
        let sink = Sink::start().await;
        let app = relaying(backend, &sink.url(), "").set("relay.max_hops", "3").start().await;
        let outbox = table(backend, "outbox");
        app.database.execute(&format!("INSERT INTO {outbox} (destination, payload, hops) VALUES ('crm', '2', 2), ('crm', '3', 3)")).await;
        wait_for(&app, "dead", 1).await;
        wait_for(&app, "sent", 1).await;
        assert_eq!(sink.texts(), ["2"]);
        assert_eq!(sink.received()[0].header("hooklatch-hops"), "3");
    }

    async fn a_transaction_that_rolls_back_leaves_no_message(backend: Backend) {
        let sink = Sink::start().await;
        let app = relaying(backend, &sink.url(), "").start().await;
        let outbox = table(backend, "outbox");
        let insert = |n| format!("INSERT INTO {outbox} (destination, payload) VALUES ('crm', '{n}')");
        app.database.in_transaction(&[&insert(1)], false).await;
        app.database.in_transaction(&[&insert(2)], true).await;
        wait_for(&app, "sent", 1).await;
        assert_eq!(sink.texts(), ["2"]);
        assert_eq!(app.database.rows("outbox").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_function_enqueue_takes_text_and_bytes() {
    let sink = Sink::start().await;
    let app = relaying(Backend::Postgres, &sink.url(), "").set("relay.poll_every", "\"1h\"").start().await;
    app.database
        .execute("SELECT hooklatch.enqueue('crm', '{\"n\": 1}', 'order_created', aggregate_id => 'order-1')")
        .await;
    app.database
        .execute("SELECT hooklatch.enqueue('crm', '\\x00ff'::bytea, headers => '{\"x-a\": \"b\"}')")
        .await;
    // Polling would take an hour: it is the notification that brings them.
    let received = sink.wait_for(2).await;
    let by_type: HashMap<_, _> = received.iter().map(|r| (r.header("content-type").to_owned(), r)).collect();
    assert_eq!(by_type["application/json"].text(), "{\"n\": 1}");
    assert_eq!(by_type["application/octet-stream"].body, [0, 0xff]);
    assert_eq!(by_type["application/octet-stream"].header("x-a"), "b");
    wait_for(&app, "sent", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_behind_pgbouncer_in_transaction_mode_deliver_each_message_once() {
    const MESSAGES: i64 = 300;
    let database = Arc::new(TestDatabase::new(Backend::Postgres).await);
    let Some(pooler) = PgBouncer::before(&database.url) else { return };
    let sink = Sink::answering(|_| Reply::status(200).after(Duration::from_millis(10))).await;
    let setup = relaying(Backend::Postgres, &sink.url(), "").set("relay.lease", "\"30s\"");
    let one = setup.start_through(database, &pooler.url).await;
    let _two = one.replica();
    let payloads: Vec<String> = (0..MESSAGES).map(|n| format!("{n}")).collect();
    let aggregates: Vec<String> = (0..MESSAGES).map(|n| format!("{}", n % 20)).collect();
    let messages: Vec<_> =
        payloads.iter().zip(&aggregates).map(|(text, of)| (text.as_str(), Some(of.as_str()))).collect();
    write(&one.database, &messages).await;
    wait_for(&one, "sent", MESSAGES).await;
    let texts: Vec<i64> = sink.texts().iter().map(|text| text.parse().expect("a number")).collect();
    assert_eq!(texts.len(), payloads.len(), "each once");
    for aggregate in 0..20 {
        let of: Vec<_> = texts.iter().filter(|n| *n % 20 == aggregate).collect();
        assert!(of.is_sorted(), "{of:?}");
    }
    assert!(!one.log().contains("ERROR"), "{}", one.log());
}
