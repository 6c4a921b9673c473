//! What expires, when, and that pruning never changes an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::support::app::{SHOP, order};
use crate::support::http::Connection;
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

const CLIENTS: usize = 20;
const HAMMERING: Duration = Duration::from_secs(8);
const WINDOW: Duration = Duration::from_secs(1);
const EXPIRED_ROWS: u32 = 100_000;
/// Generous: what is looked for is a delivery that waits for all of it.
const SLOWEST_WHILE_PRUNING: Duration = Duration::from_secs(2);
/// Rows are deleted a little later than they expire, so that none goes under a reader.
const DELETED_AFTER: Duration = Duration::from_secs(7);

/// A setup in which events and answers expire after `window`.
fn forgetful(backend: Backend, window: &str) -> Setup {
    let quoted = format!("\"{window}\"");
    Setup::new(backend)
        .set("retention.processed_events", &quoted)
        .set("retention.idempotency_keys", &quoted)
        .set("retention.dead_letters", &quoted)
        .set("retention.outbox_sent", "\"2h\"")
        .effects_may_repeat()
}

on_both_stores! {
    async fn an_expired_event_counts_as_absent_whether_it_was_pruned_or_not(backend: Backend) {
        let app = forgetful(backend, "2s").set("retention.prune_every", "\"1h\"").start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        tokio::time::sleep(Duration::from_millis(1200)).await;
        app.deliver("shop", order("evt_1")).await.expect(200, "replayed");
        tokio::time::sleep(Duration::from_millis(1000)).await;
        assert_eq!(app.database.rows("processed_events").await, 1, "nothing was pruned");
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        app.deliver("shop", order("evt_1")).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("evt_1").await, 2);
    }

    async fn an_expired_explicit_key_is_free_again(backend: Backend) {
        let app = forgetful(backend, "1s").set("retention.prune_every", "\"1h\"").start().await;
        let keyed = |body: String| Request::post("/hooks/shop", body).header("idempotency-key", "K");
        app.send(&keyed(order("evt_1"))).await.expect(200, "applied");
        app.send(&keyed(order("evt_2"))).await.expect(422, "mismatch");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        app.send(&keyed(order("evt_2"))).await.expect(200, "applied");
    }

    async fn pruning_without_pause_under_twenty_clients_on_one_key_stays_exact(backend: Backend) {
        let app = forgetful(backend, "1s").set("retention.prune_every", "\"1ms\"").start().await;
        let until = Instant::now() + HAMMERING;
        let applied = Arc::new(Mutex::new(Vec::<(Instant, Instant)>::new()));
        let address = app.public();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let applied = applied.clone();
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await.expect("connects");
                    let request = Request::post("/hooks/shop", order("evt_1")).header("idempotency-key", "K");
                    let mut answers = 0_u64;
                    while Instant::now() < until {
                        let sent = Instant::now();
                        let answer = connection.send(&request).await.expect("every request is answered");
                        answers += 1;
                        match answer.outcome() {
                            "applied" => applied.lock().await.push((sent, Instant::now())),
                            "replayed" | "duplicate" | "conflict" => {}
                            _ => panic!("{answer:?}: {}", answer.text()),
                        }
                    }
                    answers
                })
            })
            .collect();
        let mut answers = 0;
        for client in clients {
            answers += client.await.expect("a client does not panic");
        }
        let mut applied = applied.lock().await.clone();
        applied.sort_unstable();
        // From the earliest moment of one to the latest of the next lies at least the window.
        for pair in applied.windows(2) {
            let apart = pair[1].1 - pair[0].0;
            assert!(apart >= WINDOW, "two effects within {apart:?}");
        }
        let effects = app.database.effects().await;
        assert_eq!(effects, i64::try_from(applied.len()).expect("few"), "an effect for each `applied`");
        assert!(effects >= 3, "the key did expire: {effects}");
        eprintln!("{answers} answers, {effects} effects in {HAMMERING:?}");
    }

    async fn the_pruner_deletes_what_has_expired(backend: Backend) {
        let app = forgetful(backend, "1s").set("retention.prune_every", "\"100ms\"").start().await;
        for n in 0..20 {
            app.deliver("shop", order(&format!("evt_{n}"))).await.expect(200, "applied");
        }
        let deadline = Instant::now() + DELETED_AFTER * 3;
        while app.database.rows("processed_events").await > 0 {
            assert!(Instant::now() < deadline, "rows are still there");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn prune_by_hand_counts_first_and_deletes_then(backend: Backend) {
        let mut app = forgetful(backend, "1s").set("retention.prune_every", "\"1h\"").start().await;
        for n in 0..20 {
            app.deliver("shop", order(&format!("evt_{n}"))).await.expect(200, "applied");
        }
        assert_eq!(app.stop(), Some(0));
        tokio::time::sleep(DELETED_AFTER).await;
        let dry = app.run(&["prune", "--dry-run"]);
        assert!(dry.status.success(), "{}", crate::support::app::said(&dry));
        assert!(crate::support::app::said(&dry).contains("20"), "{}", crate::support::app::said(&dry));
        assert_eq!(app.database.rows("processed_events").await, 20);
        let pruned = app.run(&["prune"]);
        assert!(pruned.status.success(), "{}", crate::support::app::said(&pruned));
        assert_eq!(app.database.rows("processed_events").await, 0);
    }

    async fn windows_that_contradict_each_other_are_refused_at_start(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let refused = app.run_with("serve", &[("HOOKLATCH__RETENTION__IDEMPOTENCY_KEYS", "60d")]);
        let said = crate::support::app::said(&refused);
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("idempotency_keys") && said.contains("processed_events"), "{said}");
    }

    async fn an_event_older_than_the_memory_is_not_applied_but_kept(backend: Backend) {
        let source = SHOP.replace("data = \"/data\"", "data = \"/data\"\nevent_time = \"body:/created\"");
        let app = Setup::new(backend).sources(&source).start().await;
        let old = r#"{"id":"evt_old","created":"2001-01-01T00:00:00Z","data":{"amount":1}}"#;
        app.deliver("shop", old).await.expect_problem(422, "event-too-old");
        assert_eq!(app.database.effects().await, 0);
        assert_eq!(app.database.rows("dead_letters").await, 1);
    }

    async fn a_memory_shorter_than_the_sender_retries_is_refused_at_start(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let refused = app.run_with("serve", &[("HOOKLATCH__SOURCE__0__RETRY_HORIZON", "31d")]);
        let said = crate::support::app::said(&refused);
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("retention.processed_events"), "{said}");
    }

    async fn deliveries_are_answered_while_a_hundred_thousand_expired_rows_are_deleted(backend: Backend) {
        let app = forgetful(backend, "1h").set("retention.prune_every", "\"10ms\"").start().await;
        let (table, old) = match backend {
            Backend::Sqlite => ("processed_events", "(SELECT processed_at FROM processed_events) / 2"),
            Backend::Postgres => ("hooklatch.processed_events", "now() - interval '1 day'"),
        };
        app.deliver("shop", order("evt_model")).await.expect(200, "applied");
        let columns = "consumer, source, event_type, state, status, processed_at, event_id";
        let rows = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {EXPIRED_ROWS}) \
             INSERT INTO {table} ({columns}) \
             SELECT 'shop', 'shop', '', 'applied', 200, {old}, 'old_' || i FROM n"
        );
        app.database.execute(&rows).await;
        let mut slowest = Duration::ZERO;
        let deadline = Instant::now() + Duration::from_secs(60);
        for n in 0.. {
            let sent = Instant::now();
            app.deliver("shop", order(&format!("evt_{n}"))).await.expect(200, "applied");
            slowest = slowest.max(sent.elapsed());
            if n % 20 == 0 && app.database.rows("processed_events").await <= n + 2 {
                break;
            }
            assert!(Instant::now() < deadline, "expired rows are still there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(slowest < SLOWEST_WHILE_PRUNING, "a delivery waited {slowest:?} for the pruner");
    }
}
