//! What keeps a destination from getting too much, too late or anything at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::sink::{Reply, Sink};
use super::{POLL, in_state, relaying, table, wait_for, write};
use crate::support::app::said;
use crate::support::{Backend, on_both_stores};

on_both_stores! {
    async fn a_destination_gets_no_more_a_second_than_it_can_take(backend: Backend) {
        const MESSAGES: usize = 40;
        let sink = Sink::start().await;
        let app = relaying(backend, &sink.url(), "rate_per_second = 20").start().await;
        write(&app.database, &[("{}", None); MESSAGES]).await;
        let received = sink.wait_for(MESSAGES).await;
        let mut times: Vec<_> = received.iter().map(|request| request.at).collect();
        times.sort();
        // Two seconds' worth, of which the first may come at once.
        let took = times[MESSAGES - 1] - times[0];
        assert!(took >= Duration::from_millis(950), "{MESSAGES} came within {took:?}");
        wait_for(&app, "sent", i64::try_from(MESSAGES).expect("few")).await;
    }

    async fn a_message_that_is_too_old_is_given_up_however_many_attempts_are_left(backend: Backend) {
        let sink = Sink::answering(|_| Reply::status(500)).await;
        // Longer than a busy machine takes to send it for the first time.
        let more = "max_age = \"4s\"\nmax_attempts = 1000000\nbreaker_failures = 1000000";
        let app = relaying(backend, &sink.url(), more).start().await;
        write(&app.database, &[("{}", None)]).await;
        wait_for(&app, "dead", 1).await;
        let received = sink.received();
        assert!(received.len() > 1, "it was tried again and again");
        let tried = received[received.len() - 1].at - received[0].at;
        assert!(tried >= Duration::from_millis(500), "given up after {tried:?}");
    }

    async fn who_pauses_a_destination_stops_it_until_it_is_resumed(backend: Backend) {
        let sink = Sink::start().await;
        let app = relaying(backend, &sink.url(), "").start().await;
        write(&app.database, &[("before", None)]).await;
        wait_for(&app, "sent", 1).await;
        let paused = app.run(&["destinations", "pause", "crm", "--reason", "they move house"]);
        assert!(paused.status.success(), "{}", said(&paused));
        // The relay reads it as often as it polls.
        tokio::time::sleep(Duration::from_millis(500)).await;
        write(&app.database, &[("after", None)]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(sink.texts(), ["before"]);
        let listed = app.run(&["destinations", "list"]);
        assert!(said(&listed).contains("they move house"), "{}", said(&listed));
        let resumed = app.run(&["destinations", "resume", "crm"]);
        assert!(resumed.status.success(), "{}", said(&resumed));
        wait_for(&app, "sent", 2).await;
        assert_eq!(sink.texts(), ["before", "after"]);
    }

    async fn a_lease_that_ends_unsettled_is_counted(backend: Backend) {
        let answers = Arc::new(AtomicBool::new(false));
        let now = answers.clone();
        let sink = Sink::answering(move |_| match now.load(Ordering::SeqCst) {
            true => Reply::status(200),
            false => Reply::never(),
        }).await;
        let mut app = relaying(backend, &sink.url(), "").start().await;
        write(&app.database, &[("{}", None)]).await;
        sink.wait_for(1).await;
        app.kill();
        answers.store(true, Ordering::SeqCst);
        app.start();
        wait_for(&app, "sent", 1).await;
        assert_eq!(in_state(&app.database, "new").await, 0);
        let count = "hooklatch_outbox_lease_expiries_total{destination=\"crm\"} 1";
        while !app.admin_get("/metrics").await.text().contains(count) {
            tokio::time::sleep(POLL).await;
        }
        let attempts = format!("SELECT CAST(attempts AS bigint) FROM {}", table(backend, "outbox"));
        assert_eq!(app.database.number(&attempts).await, 2);
    }
}
