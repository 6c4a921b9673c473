//! What the sender gets: every row of the table of answers.

use std::time::Duration;

use serde_json::json;

use super::{GITHUB, all_at_once, github, patient, slow_source};
use crate::support::app::{SHOP, order};
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

on_both_stores! {
    async fn a_new_event_is_applied_and_named_in_the_answer(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let answer = app.deliver("shop", order("evt_1")).await;
        answer.expect(200, "applied");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.json(), json!({"status": "applied", "event_id": "evt_1"}));
        assert!(!answer.is_replay());
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn the_same_delivery_again_gets_the_same_bytes_and_is_marked_as_a_replay(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let first = app.deliver("shop", order("evt_1")).await;
        let again = app.deliver("shop", order("evt_1")).await;
        again.expect(200, "replayed");
        assert!(again.is_replay());
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("content-type"), first.header("content-type"));
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn an_event_that_no_handler_takes_is_recorded_and_ignored(backend: Backend) {
        let only_orders = SHOP.replace("[[source.handler]]", "[[source.handler]]\non = [\"order_created\"]");
        let app = Setup::new(backend).sources(&only_orders).start().await;
        let unknown = r#"{"id":"evt_1","type":"order_dreamt_of","data":{"amount":1}}"#;
        app.deliver("shop", unknown).await.expect(200, "ignored");
        let again = app.deliver("shop", unknown).await;
        again.expect(200, "replayed");
        assert_eq!(again.json(), json!({"status": "ignored", "event_id": "evt_1"}));
        assert_eq!(app.database.effects().await, 0);
        assert_eq!(app.database.rows("processed_events").await, 1);
    }

    async fn a_source_says_how_success_is_answered(backend: Backend) {
        for status in [201, 202, 204] {
            let source = SHOP.replace("data = \"/data\"", &format!("data = \"/data\"\nsuccess_status = {status}"));
            let app = Setup::new(backend).sources(&source).start().await;
            let first = app.deliver("shop", order("evt_1")).await;
            first.expect(status, "applied");
            assert_eq!(first.body.is_empty(), status == 204, "{first:?}");
            let again = app.deliver("shop", order("evt_1")).await;
            again.expect(status, "replayed");
            assert_eq!(again.body, first.body);
        }
    }

    async fn a_handler_may_answer_for_itself_and_that_answer_is_replayed_whole(backend: Backend) {
        let headers = r#"'{\"x-order\":\"7\",\"content-type\":\"text/plain\"}'"#;
        let headers = match backend {
            Backend::Sqlite => headers.to_owned(),
            Backend::Postgres => format!("{headers}::jsonb"),
        };
        let returning = format!(
            "FROM event RETURNING event_id, 201 AS status, {headers} AS headers, 'made ' || event_id AS body\""
        );
        let source = SHOP.replace("FROM event\"", &returning);
        let app = Setup::new(backend).sources(&source).start().await;
        let first = app.deliver("shop", order("evt_1")).await;
        first.expect(201, "applied");
        assert_eq!((first.header("x-order"), first.header("content-type")), (Some("7"), Some("text/plain")));
        assert_eq!(first.text(), "made evt_1");
        let again = app.deliver("shop", order("evt_1")).await;
        again.expect(201, "replayed");
        assert_eq!((again.header("x-order"), again.header("content-type")), (Some("7"), Some("text/plain")));
        assert_eq!(again.body, first.body);
    }

    async fn an_event_whose_answer_has_expired_is_a_duplicate(backend: Backend) {
        let app = Setup::new(backend)
            .set("retention.idempotency_keys", "\"1s\"")
            .set("retention.prune_every", "\"1h\"")
            .start()
            .await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let late = app.deliver("shop", order("evt_1")).await;
        late.expect(200, "duplicate");
        assert_eq!(late.json(), json!({"status": "duplicate", "event_id": "evt_1"}));
        assert!(!late.is_replay());
    }

    async fn a_permanently_refused_event_is_kept_as_a_dead_letter_and_has_no_effect(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let negative = r#"{"id":"evt_bad","type":"order_created","data":{"amount":-1}}"#;
        let first = app.deliver("shop", negative).await;
        first.expect(422, "rejected").expect_problem(422, "event-rejected");
        let again = app.deliver("shop", negative).await;
        again.expect_problem(422, "event-rejected");
        assert!(again.is_replay(), "a stored refusal is replayed, and says so");
        assert_eq!(again.body, first.body);
        assert_eq!(app.database.effects().await, 0);
        assert_eq!(app.database.rows("dead_letters").await, 1);
        assert!(!first.text().contains("effects"), "nothing internal is said: {}", first.text());
    }

    async fn with_replay_errors_none_a_refused_event_is_tried_again(backend: Backend) {
        let source = SHOP.replace("data = \"/data\"", "data = \"/data\"\nreplay_errors = \"none\"");
        let app = Setup::new(backend).sources(&source).start().await;
        let negative = r#"{"id":"evt_1","type":"order_created","data":{"amount":-1}}"#;
        app.deliver("shop", negative).await.expect(422, "rejected");
        let positive = r#"{"id":"evt_1","type":"order_created","data":{"amount":1}}"#;
        app.deliver("shop", positive).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
        assert_eq!(app.database.rows("dead_letters").await, 0, "it was applied after all");
    }

    async fn with_replay_errors_all_a_failure_is_answered_500_and_replayed(backend: Backend) {
        let source = SHOP.replace("data = \"/data\"", "data = \"/data\"\nreplay_errors = \"all\"");
        let app = Setup::new(backend).sources(&source).start().await;
        app.database.execute("ALTER TABLE effects RENAME TO effects_away").await;
        app.deliver("shop", order("evt_1")).await.expect_problem(500, "event-failed");
        app.database.execute("ALTER TABLE effects_away RENAME TO effects").await;
        let again = app.deliver("shop", order("evt_1")).await;
        again.expect_problem(500, "event-failed");
        assert!(again.is_replay());
        assert_eq!(app.database.effects().await, 0);
        assert_eq!(app.database.rows("dead_letters").await, 1);
    }

    async fn a_passing_failure_stores_nothing_and_asks_the_sender_to_come_again(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.database.execute("ALTER TABLE effects RENAME TO effects_away").await;
        let failed = app.deliver("shop", order("evt_1")).await;
        failed.expect(503, "unavailable").expect_problem(503, "unavailable");
        assert!(failed.header("retry-after").is_some_and(|s| s.parse::<u32>().is_ok()), "{failed:?}");
        app.database.execute("ALTER TABLE effects_away RENAME TO effects").await;
        assert_eq!(app.database.rows("processed_events").await, 0);
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn a_full_queue_is_answered_503_with_retry_after(backend: Backend) {
        let app = patient(Setup::new(backend))
            .sources(&slow_source(backend, "slow", 1.0).await)
            .set("inbox.queue", "1")
            .set("inbox.max_batch", "1")
            .start()
            .await;
        let requests = (0..8).map(|n| Request::post("/hooks/slow", format!(r#"{{"id":"evt_{n}"}}"#)));
        let answers = all_at_once(app.public(), requests.collect()).await;
        let refused: Vec<_> = answers.iter().filter(|a| !a.is_success()).collect();
        assert!(!refused.is_empty(), "eight do not fit into a queue of one");
        for answer in refused {
            answer.expect(503, "unavailable");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
        let applied = answers.iter().filter(|a| a.is_success()).count();
        assert_eq!(app.database.effects().await, i64::try_from(applied).expect("eight at most"));
    }

    async fn every_refusal_has_its_status_and_leaves_nothing_behind(backend: Backend) {
        let app =
            Setup::new(backend).and_source(GITHUB).set("http.max_body_bytes", "2000").start().await;
        let post = |target: &str, body: &str| Request::post(target, body.to_owned());
        let too_large = format!(r#"{{"id":"{}"}}"#, "x".repeat(2000));

        app.send(&post("/hooks/nobody", "{}")).await.expect_problem(404, "unknown-source");
        app.send(&post("/nothing/here", "{}")).await.expect_problem(404, "not-found");
        let wrong_method = app.send(&Request::new("GET", "/hooks/shop")).await;
        wrong_method.expect_problem(405, "method-not-allowed");
        assert_eq!(wrong_method.header("allow"), Some("POST"));
        app.send(&post("/hooks/shop", &too_large)).await.expect_problem(413, "body-too-large");
        let gzip = post("/hooks/shop", &order("evt_1")).header("content-encoding", "gzip");
        app.send(&gzip).await.expect_problem(415, "unsupported-encoding");
        app.send(&post("/hooks/shop", "no json")).await.expect(400, "malformed").expect_problem(400, "malformed-body");
        app.send(&post("/hooks/shop", "{}")).await.expect_problem(400, "missing-event-id");
        app.send(&post("/hooks/shop", r#"{"id":true}"#)).await.expect_problem(400, "invalid-event-id");
        let bad_key = post("/hooks/shop", &order("evt_1")).header("idempotency-key", "");
        app.send(&bad_key).await.expect_problem(400, "invalid-idempotency-key");
        app.send(&post("/hooks/github", "{}")).await.expect(401, "unverified").expect_problem(401, "signature-invalid");

        assert_eq!(app.database.rows("processed_events").await, 0);
        assert_eq!(app.database.rows("dead_letters").await, 0);
        assert_eq!(app.database.effects().await, 0);
    }

    async fn checks_come_in_the_order_size_source_signature_envelope_key(backend: Backend) {
        let app =
            Setup::new(backend).and_source(GITHUB).set("http.max_body_bytes", "2000").start().await;
        let large = "x".repeat(2001);
        app.send(&Request::post("/hooks/github", large.clone())).await.expect_problem(413, "body-too-large");
        // Signed by nobody, no JSON, a bad key: the signature is what is wrong with it.
        let unsigned = Request::post("/hooks/github", "no json").header("idempotency-key", "");
        app.send(&unsigned).await.expect_problem(401, "signature-invalid");
        let signed = github("d1", "no json").header("idempotency-key", "");
        app.send(&signed).await.expect_problem(400, "malformed-body");
        let whole = github("d1", "{}").header("idempotency-key", "");
        app.send(&whole).await.expect_problem(400, "invalid-idempotency-key");
    }

    async fn every_answer_of_a_hook_carries_its_outcome(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        for request in [
            Request::post("/hooks/shop", order("evt_1")),
            Request::post("/hooks/shop", "x"),
            Request::post("/hooks/github", "{}"),
            Request::post("/hooks/nobody", "{}"),
            Request::new("GET", "/hooks/shop"),
        ] {
            let answer = app.send(&request).await;
            assert!(!answer.outcome().is_empty(), "{} {}: {answer:?}", request.method, request.target);
        }
    }
}
