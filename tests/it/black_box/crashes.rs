//! `kill -9` at any moment: no acknowledged event is lost, none takes effect twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::{all_at_once, patient, slow_source};
use crate::support::app::{TestApp, order};
use crate::support::database::unique;
use crate::support::http::{Answer, Connection};
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup, http};

const EVENTS: usize = 200;
const SENDERS: usize = 10;
const KILLS: usize = 6;

/// Milliseconds between 20 and 150: long enough to begin something, short enough not to end it.
fn random_pause() -> Duration {
    let random = u64::from_str_radix(&unique()[..4], 16).expect("hex digits");
    Duration::from_millis(20 + random % 130)
}

on_both_stores! {
    async fn two_hundred_events_survive_kills_at_random_moments_once_each(backend: Backend) {
        let mut app = Setup::new(backend).start().await;
        let address = Arc::new(Mutex::new(app.public()));
        let acknowledged = Arc::new(Mutex::new(Vec::<String>::new()));
        let over = Arc::new(AtomicBool::new(false));

        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (address, acknowledged, over) = (address.clone(), acknowledged.clone(), over.clone());
                tokio::spawn(async move {
                    for n in (sender..EVENTS).step_by(SENDERS) {
                        let id = format!("evt_{n}");
                        let request = Request::post("/hooks/shop", order(&id));
                        let to = *address.lock().await;
                        // Whoever gets no answer does not know; that is what the second round is for.
                        if http::send(to, &request).await.is_ok_and(|answer| answer.is_success()) {
                            acknowledged.lock().await.push(id);
                        }
                        // Slow enough that there is something left to interrupt.
                        let spread = if over.load(Ordering::Relaxed) { 0 } else { 20 };
                        tokio::time::sleep(Duration::from_millis(spread)).await;
                    }
                })
            })
            .collect();
        for _ in 0..KILLS {
            tokio::time::sleep(random_pause()).await;
            app.kill();
            app.start();
            *address.lock().await = app.public();
        }
        over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.await.expect("a sender does not panic");
        }

        let acknowledged = acknowledged.lock().await.clone();
        for id in &acknowledged {
            assert_eq!(app.database.effects_of(id).await, 1, "{id} was acknowledged");
        }
        let again = (0..EVENTS).map(|n| Request::post("/hooks/shop", order(&format!("evt_{n}"))));
        for answer in all_at_once(app.public(), again.collect()).await {
            assert!(answer.is_success(), "{answer:?}");
        }
        assert_eq!(app.database.effects().await, 200, "each exactly once");
        eprintln!("{} of {EVENTS} were acknowledged before the second round", acknowledged.len());
    }

    async fn an_event_interrupted_between_insert_and_commit_is_new_afterwards(backend: Backend) {
        // A second handler, so that the batch is a transaction of several statements.
        let second = "[[source.handler]]\nsql = \"SELECT id FROM event WHERE false\"\n";
        let source = slow_source(backend, "slow", 1.5).await + second;
        let (app, answer) = interrupted(backend, &source).await;
        answer.expect(200, "applied");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn an_event_interrupted_in_the_middle_of_its_statement_takes_effect_once(backend: Backend) {
        let (app, answer) = interrupted(backend, &slow_source(backend, "slow", 1.5).await).await;
        // PostgreSQL finishes a statement whose client is gone; then the answer is replayed.
        assert!(answer.is_success(), "{answer:?}");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
        app.send(&Request::post("/hooks/slow", r#"{"id":"evt_1"}"#)).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn sigterm_finishes_what_was_begun(backend: Backend) {
        let mut app = patient(Setup::new(backend)).sources(&slow_source(backend, "slow", 1.0).await).start().await;
        let request = Request::post("/hooks/slow", r#"{"id":"evt_1"}"#);
        let mut connection = Connection::open(app.public()).await.expect("connects");
        connection.write(&request.bytes()).await.expect("writes");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let stopped = tokio::task::spawn_blocking(move || {
            let code = app.stop();
            (app, code)
        });
        connection.answer().await.expect("it is answered before the process ends").expect(200, "applied");
        let (app, code) = stopped.await.expect("stopping does not panic");
        assert_eq!(code, Some(0));
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }
}

/// Kills the process while the handler of `evt_1` runs, starts it again, and sends the event until it is
/// taken.
async fn interrupted(backend: Backend, source: &str) -> (TestApp, Answer) {
    let mut app = patient(Setup::new(backend)).sources(source).start().await;
    let request = Request::post("/hooks/slow", r#"{"id":"evt_1"}"#);
    let mut first = Connection::open(app.public()).await.expect("connects");
    first.write(&request.bytes()).await.expect("writes");
    tokio::time::sleep(Duration::from_millis(500)).await;
    app.kill();
    assert!(first.answer().await.is_err(), "nobody was told anything");
    app.start();
    // The database may need a moment to notice that the first writer is gone: 409 or 503 until then.
    let mut answer = app.send(&request).await;
    for _ in 0..10 {
        if answer.is_success() {
            break;
        }
        assert!(matches!(answer.status, 409 | 503), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        answer = app.send(&request).await;
    }
    (app, answer)
}
