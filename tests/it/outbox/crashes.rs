//! Relays that die or stand still at the worst moment.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hooklatch::clock::Clock;
use hooklatch::config::{Config, Environment};
use hooklatch::outbox::destination;
use hooklatch::outbox::lane::{Lane, LaneOptions, LaneParts};
use hooklatch::telemetry::metrics::Metrics;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, PgConnection};
use tokio::sync::Notify;

use super::contract::database_at;
use super::sink::{Reply, Sink};
use super::{crm, in_state, relaying, table, wait_for, write};
use crate::support::app::{TestApp, order};
use crate::support::{Backend, Request, Setup, TestDatabase, on_both_stores, until};

/// Ends the leases of whoever is dead, without the wait.
async fn end_leases(database: &TestDatabase) {
    let outbox = table(database.backend, "outbox");
    let end = "leased_until = created_at, next_attempt_at = created_at";
    database.execute(&format!("UPDATE {outbox} SET {end} WHERE lease_token IS NOT NULL")).await;
}

/// Stops a process while it is in no transaction: stopped in one, it would keep its locks for as long as
/// it stands still, and on SQLite nobody else could write at all.
async fn stop_between_writes(app: &TestApp) {
    until("the process is between two transactions", async || {
        app.signal("STOP");
        let is_between = is_free_to_write(&app.database).await;
        if !is_between {
            app.signal("CONT");
        }
        is_between
    })
    .await;
}

/// Whether every message can be locked now.
async fn is_free_to_write(database: &TestDatabase) -> bool {
    match database.backend {
        Backend::Sqlite => {
            let file = database.url.trim_start_matches("sqlite://");
            let options = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::ZERO);
            let Ok(mut connection) = SqliteConnection::connect_with(&options).await else { return false };
            let is_free = sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.is_ok();
            connection.close().await.is_ok() && is_free
        }
        Backend::Postgres => {
            let mut connection =
                PgConnection::connect(&database.url).await.expect("the test cluster answers");
            let lock = "SELECT id FROM hooklatch.outbox FOR UPDATE NOWAIT";
            sqlx::query(lock).execute(&mut connection).await.is_ok()
        }
    }
}

on_both_stores! {
    async fn a_relay_killed_after_the_post_and_before_the_mark_sends_the_same_id_again(backend: Backend) {
        // The receiver has the request and does not answer: killed then, the relay knows nothing.
        let kills = 3;
        let seen = Arc::new(AtomicUsize::new(0));
        let sink = Sink::answering(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
            request if request < kills => Reply::never(),
            _ => Reply::status(200),
        }).await;
        // A lease that no busy machine outlasts: it ends when the test says so, and each claim is one POST.
        let mut app = relaying(backend, &sink.url(), "").set("relay.lease", "\"10m\"").start().await;
        write(&app.database, &[("once", None)]).await;
        for kill in 1..=kills {
            sink.wait_for(kill).await;
            app.kill();
            end_leases(&app.database).await;
            app.start();
        }
        wait_for(&app, "sent", 1).await;
        let received = sink.received();
        assert_eq!(received.len(), kills + 1);
        assert!(received.iter().all(|request| request.id() == received[0].id() && request.text() == "once"));
        let attempts = app.database.number(&format!("SELECT CAST(attempts AS bigint) FROM {}", table(backend, "outbox"))).await;
        assert_eq!(attempts, i64::try_from(received.len()).expect("few"));
    }

    async fn a_hundred_relays_killed_between_post_and_mark_lose_nothing_and_have_one_effect_each(backend: Backend) {
        const KILLS: usize = 100;
        let receiver = Setup::new(backend).start().await;
        // In front of the receiver: a first delivery stays without an answer, the relay dies meanwhile.
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let sink = Sink::answering(move |request| {
            let is_first = seen.lock().expect("no panic").insert(request.id().to_owned());
            if is_first { Reply::never() } else { Reply::status(200) }
        }).await;
        let mut app = relaying(backend, &sink.url(), "concurrency = 1").set("relay.lease", "\"1s\"").start().await;
        let payloads: Vec<String> = (0..KILLS).map(|n| order(&format!("evt_{n}"))).collect();
        let messages: Vec<_> = payloads.iter().map(|payload| (payload.as_str(), None)).collect();
        write(&app.database, &messages).await;
        let mut bodies: HashMap<String, String> = HashMap::new();
        let (mut passed_on, mut killed) = (0, 0);
        while killed < KILLS {
            let request = sink.wait_for(passed_on + 1).await.swap_remove(passed_on);
            passed_on += 1;
            let body = bodies.entry(request.id().to_owned()).or_default();
            let is_first = body.is_empty();
            assert!(is_first || *body == request.text(), "another body under the same id");
            *body = request.text();
            let pass_on = Request::post("/hooks/shop", request.body.clone()).header("idempotency-key", request.id());
            assert!(receiver.send(&pass_on).await.is_success());
            if is_first {
                app.kill();
                killed += 1;
                app.start();
            }
        }
        wait_for(&app, "sent", i64::try_from(KILLS).expect("few")).await;
        let all = sink.received();
        for request in &all[passed_on..] {
            let pass_on = Request::post("/hooks/shop", request.body.clone()).header("idempotency-key", request.id());
            assert!(receiver.send(&pass_on).await.is_success());
        }
        let deliveries = |id: &str| all.iter().filter(|request| request.id() == id).count();
        assert_eq!(bodies.len(), KILLS, "nothing is lost");
        assert!(bodies.keys().all(|id| deliveries(id) >= 2), "each is delivered again, under its id");
        assert_eq!(receiver.database.effects().await, i64::try_from(KILLS).expect("few"), "one effect each");
    }

    async fn a_relay_that_stood_still_past_its_lease_settles_nothing(backend: Backend) {
        let (seen, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let told = answer.clone();
        let sink = Sink::answering(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
            // What the sleeper would note, were it allowed to.
            0 => Reply::status(422).once_told(told.clone()),
            _ => Reply::status(200),
        }).await;
        // Long enough for heartbeats that a busy machine delays.
        let sleeper = relaying(backend, &sink.url(), "").set("relay.lease", "\"5s\"").start().await;
        write(&sleeper.database, &[("once", None)]).await;
        sink.wait_for(1).await;
        stop_between_writes(&sleeper).await;
        let other = sleeper.replica();
        wait_for(&other, "sent", 1).await;
        answer.notify_one();
        sleeper.signal("CONT");
        // It gets its answer now and tries to note it.
        sleeper.logs("leases had ended", 1).await;
        wait_for(&other, "sent", 1).await;
        assert_eq!(sleeper.database.rows("outbox_attempts").await, 0);
        let received = sink.received();
        assert_eq!(received.len(), 2);
        assert_eq!(received[0].id(), received[1].id());
    }

    async fn what_is_claimed_too_late_to_be_sent_is_given_back_and_counts_as_untried(backend: Backend) {
        let sink = Sink::start().await;
        let (database, store) = database_at(backend, Clock::system()).await;
        let config = Config::parse("test.toml", &crm(&sink.url(), ""), &Environment::default()).expect("is right");
        let spec = config.destinations[0].clone();
        // Each claim takes longer than its lease lasts.
        let options = LaneOptions { lease: Duration::ZERO, ..config.relay.options() };
        let parts = LaneParts { store, clock: Clock::system(), metrics: Arc::new(Metrics::new()), options };
        let mut lane = Lane::new(parts, spec.clone(), destination::open(&spec).expect("opens"));
        write(&database, &[("once", None)]).await;
        let outbox = table(backend, "outbox");
        for _ in 0..3 {
            let stepped = lane.step().await.expect("steps");
            assert_eq!((stepped.claimed, stepped.delivered), (1, 0));
            let tried = database.number(&format!("SELECT CAST(attempts AS bigint) FROM {outbox}")).await;
            assert_eq!((tried, in_state(&database, "new").await), (0, 1));
        }
        assert!(sink.received().is_empty());
    }

    async fn a_stop_finishes_what_is_on_its_way_and_gives_back_the_rest(backend: Backend) {
        let sink = Sink::answering(|_| Reply::status(200).after(Duration::from_millis(300))).await;
        let mut app = relaying(backend, &sink.url(), "concurrency = 2").set("relay.lease", "\"60s\"").start().await;
        let messages: Vec<_> = (0..10).map(|_| ("{}", None)).collect();
        write(&app.database, &messages).await;
        sink.wait_for(2).await;
        assert_eq!(app.stop(), Some(0));
        let received = i64::try_from(sink.received().len()).expect("few");
        let outbox = table(backend, "outbox");
        let sent = app.database.number(&format!("SELECT count(*) FROM {outbox} WHERE state = 'sent'")).await;
        let untouched = app.database.number(&format!(
            "SELECT count(*) FROM {outbox} WHERE state = 'new' AND attempts = 0 AND lease_token IS NULL"
        )).await;
        assert_eq!((sent, untouched), (received, 10 - received));
        // The next one finds them at once.
        app.start();
        wait_for(&app, "sent", 10).await;
        assert_eq!(sink.received().len(), 10);
    }

    async fn a_stop_notes_what_has_arrived_while_others_are_still_on_their_way(backend: Backend) {
        let answer = Arc::new(Notify::new());
        let told = answer.clone();
        let sink = Sink::answering(move |request| match request.text().as_str() {
            "slow" => Reply::status(200).once_told(told.clone()),
            _ => Reply::status(200).after(Duration::from_millis(300)),
        }).await;
        let app = relaying(backend, &sink.url(), "").set("relay.drain", "\"100s\"").start().await;
        write(&app.database, &[("slow", None), ("fast", None)]).await;
        sink.wait_for(2).await;
        app.signal("TERM");
        // Who would kill it now would lose what is not noted.
        wait_for(&app, "sent", 1).await;
        answer.notify_one();
        wait_for(&app, "sent", 2).await;
    }
}
