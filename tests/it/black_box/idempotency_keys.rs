//! The header `Idempotency-Key`: syntax, scope, fingerprint, replay.

use std::time::Duration;

use super::{all_at_once, patient, slow_source};
use crate::support::app::{SHOP, order};
use crate::support::http::Connection;
use crate::support::on_both_stores;
use crate::support::{Answer, Backend, Request, Setup};

fn keyed(target: &str, key: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::post(target, body).header("idempotency-key", key)
}

on_both_stores! {
    async fn fifty_parallel_requests_with_one_key_run_once(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let answers = all_at_once(app.public(), vec![keyed("/hooks/shop", "K", order("evt_1")); 50]).await;
        assert!(answers.iter().all(|a| a.is_success() || a.status == 409), "{answers:?}");
        assert!(answers.iter().any(Answer::is_success));
        assert_eq!(app.database.effects().await, 1);
    }

    async fn the_same_key_with_another_body_is_refused_and_changes_nothing(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let ten = r#"{"id":"evt_1","data":{"amount":10}}"#;
        let twenty = r#"{"id":"evt_2","data":{"amount":20}}"#;
        let first = app.send(&keyed("/hooks/shop", "K", ten)).await;
        first.expect(200, "applied");
        app.send(&keyed("/hooks/shop", "K", twenty)).await
            .expect(422, "mismatch")
            .expect_problem(422, "idempotency-key-reused");
        let again = app.send(&keyed("/hooks/shop", "K", ten)).await;
        again.expect(200, "replayed");
        assert_eq!(again.body, first.body);
        assert_eq!(app.database.effects().await, 1);
        assert_eq!(app.database.effects_of("evt_2").await, 0);
    }

    async fn the_fingerprint_is_of_bytes_not_of_meaning(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.send(&keyed("/hooks/shop", "K", r#"{"id":"evt_1","data":{"amount":1}}"#)).await.expect(200, "applied");
        app.send(&keyed("/hooks/shop", "K", r#"{"data":{"amount":1}, "id":"evt_1"}"#)).await.expect(422, "mismatch");
    }

    async fn a_key_that_is_the_event_id_is_compared_too(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.send(&keyed("/hooks/shop", "evt_1", r#"{"id":"evt_1","data":{"amount":1}}"#)).await.expect(200, "applied");
        app.send(&keyed("/hooks/shop", "evt_1", r#"{"id":"evt_1","data":{"amount":2}}"#)).await.expect(422, "mismatch");
        app.send(&keyed("/hooks/shop", "evt_1", r#"{"id":"evt_1","data":{"amount":1}}"#)).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn a_key_never_shows_the_answer_of_another_source_or_target(backend: Backend) {
        let other = SHOP.replace("\"shop\"", "\"other\"");
        let app = Setup::new(backend).and_source(&other).start().await;
        app.send(&keyed("/hooks/shop", "K", order("evt_1"))).await.expect(200, "applied");
        app.send(&keyed("/hooks/other", "K", order("evt_1"))).await.expect(200, "applied");
        app.send(&keyed("/hooks/shop?x=1", "K", order("evt_1"))).await.expect(422, "mismatch");
        app.send(&keyed("/hooks/shop", "K", order("evt_1"))).await.expect(200, "replayed");
    }

    async fn a_second_key_does_not_make_an_event_new(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.send(&keyed("/hooks/shop", "K1", order("evt_1"))).await.expect(200, "applied");
        let other_key = app.send(&keyed("/hooks/shop", "K2", order("evt_1"))).await;
        assert!(other_key.is_success() && other_key.outcome() != "applied", "{other_key:?}");
        let no_key = app.deliver("shop", order("evt_1")).await;
        assert!(no_key.is_success() && no_key.outcome() != "applied", "{no_key:?}");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn keys_of_every_allowed_form_are_accepted_and_quotes_do_not_count(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for (n, key) in ["x", &"k".repeat(255), "\"a, b\"", ":YWJj:", "with blank inside"].iter().enumerate() {
            let answer = app.send(&keyed("/hooks/shop", key, order(&format!("evt_{n}")))).await;
            assert_eq!(answer.status, 200, "{key}: {}", answer.text());
        }
        app.send(&keyed("/hooks/shop", "abc", order("evt_abc"))).await.expect(200, "applied");
        app.send(&keyed("/hooks/shop", "\"abc\"", order("evt_abc"))).await.expect(200, "replayed");
    }

    async fn keys_of_any_other_form_are_refused(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let long = "k".repeat(256);
        let longer = "k".repeat(4096);
        let keys: [&[u8]; 10] = [
            b"", b"  ", b"\t", long.as_bytes(), longer.as_bytes(), b"a, b",
            b"\"unterminated", b"\"\"", b"\xc3\xa9", b"a\x01b",
        ];
        for key in keys {
            let request = Request::post("/hooks/shop", order("evt_1")).header("idempotency-key", key);
            let answer = app.send(&request).await;
            assert_eq!(answer.status, 400, "{}: {}", String::from_utf8_lossy(key), answer.text());
        }
        let twice = keyed("/hooks/shop", "a", order("evt_1")).header("idempotency-key", "b");
        app.send(&twice).await.expect_problem(400, "invalid-idempotency-key");
        assert_eq!(app.database.rows("processed_events").await, 0);
    }

    async fn a_source_may_require_the_key_or_ignore_it(backend: Backend) {
        let policy = |name: &str, policy: &str| {
            SHOP.replace("\"shop\"", &format!("\"{name}\"\nidempotency_key = \"{policy}\""))
        };
        let sources = policy("must", "required") + &policy("never", "ignored");
        let app = Setup::new(backend).sources(&sources).start().await;
        app.deliver("must", order("evt_1")).await.expect_problem(400, "missing-idempotency-key");
        app.send(&keyed("/hooks/must", "K", order("evt_1"))).await.expect(200, "applied");
        app.send(&keyed("/hooks/never", "K", order("evt_1"))).await.expect(200, "applied");
        app.send(&keyed("/hooks/never", "K", order("evt_2"))).await.expect(200, "applied");
        app.send(&keyed("/hooks/never", "", order("evt_3"))).await.expect(200, "applied");
    }

    async fn a_refusal_is_replayed_under_its_key_and_marked(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let bad = r#"{"id":"evt_1","data":{"amount":-1}}"#;
        let first = app.send(&keyed("/hooks/shop", "K", bad)).await;
        first.expect_problem(422, "event-rejected");
        let again = app.send(&keyed("/hooks/shop", "K", bad)).await;
        again.expect_problem(422, "event-rejected");
        assert!(again.is_replay() && !first.is_replay());
        assert_eq!(again.body, first.body);
    }

    async fn a_failed_request_does_not_leave_its_key_in_progress(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.database.execute("ALTER TABLE effects RENAME TO effects_away").await;
        app.send(&keyed("/hooks/shop", "K", order("evt_1"))).await.expect(503, "unavailable");
        app.database.execute("ALTER TABLE effects_away RENAME TO effects").await;
        app.send(&keyed("/hooks/shop", "K", order("evt_1"))).await.expect(200, "applied");
    }

    async fn who_asks_while_the_first_is_running_gets_its_answer_in_the_end(backend: Backend) {
        let app = patient(Setup::new(backend)).sources(&slow_source(backend, "slow", 0.5).await).start().await;
        let request = keyed("/hooks/slow", "K", r#"{"id":"evt_1"}"#);
        let mut first = Connection::open(app.public()).await.expect("connects");
        first.write(&request.bytes()).await.expect("writes");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = app.send(&request).await;
        assert!(second.outcome() == "replayed" || second.status == 409, "{second:?}");
        first.answer().await.expect("answers").expect(200, "applied");
        app.send(&request).await.expect(200, "replayed");
        assert_eq!(app.database.effects().await, 1);
    }

    async fn the_three_refusals_of_a_key_are_told_apart(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.send(&keyed("/hooks/shop", "K", order("evt_1"))).await.expect(200, "applied");
        let malformed = app.send(&keyed("/hooks/shop", "", order("evt_1"))).await;
        let reused = app.send(&keyed("/hooks/shop", "K", order("evt_2"))).await;
        assert_eq!((malformed.status, malformed.problem().as_str()), (400, "invalid-idempotency-key"));
        assert_eq!((reused.status, reused.problem().as_str()), (422, "idempotency-key-reused"));
    }
}
