//! What operators see and do: health, metrics, the history of an event, the retry of a dead letter.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::GITHUB;
use crate::support::app::{TestApp, order, said};
use crate::support::on_both_stores;
use crate::support::{Answer, Backend, Request, Setup, http};

/// The ledger is written beside the hot path: it may take a moment.
const LEDGER_WITHIN: Duration = Duration::from_secs(10);

/// The history of an event, once its ledger has this many lines.
async fn history(app: &TestApp, event_id: &str, deliveries: usize) -> Value {
    let deadline = Instant::now() + LEDGER_WITHIN;
    loop {
        let answer = app.admin_get(&format!("/api/v1/events/{event_id}")).await;
        if answer.status == 200 {
            let json = answer.json();
            if json["deliveries"].as_array().is_some_and(|lines| lines.len() >= deliveries) {
                return json;
            }
        }
        assert!(Instant::now() < deadline, "the ledger does not tell of {event_id}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn ask(address: std::net::SocketAddr, target: &str) -> Answer {
    http::send(address, &Request::new("GET", target)).await.expect("answers")
}

on_both_stores! {
    async fn a_healthy_process_is_alive_and_ready(backend: Backend) {
        let app = Setup::new(backend).start().await;
        assert_eq!(ask(app.public(), "/healthz").await.status, 200);
        assert_eq!(ask(app.public(), "/readyz").await.status, 200);
        assert_eq!(ask(app.admin(), "/healthz").await.status, 200);
    }

    async fn the_admin_listener_wants_its_token_and_the_public_one_has_nothing_of_it(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for target in ["/metrics", "/api/v1/deliveries", "/docs", "/openapi.json"] {
            assert_eq!(ask(app.admin(), target).await.status, 401, "{target}");
            assert_eq!(app.admin_get(target).await.status, 200, "{target}");
            assert_eq!(ask(app.public(), target).await.status, 404, "{target}");
        }
        let wrong = Request::new("GET", "/metrics").header("authorization", "Bearer wrong");
        let refused = http::send(app.admin(), &wrong).await.expect("answers");
        assert_eq!(refused.status, 401);
        assert!(refused.header("www-authenticate").is_some());
    }

    async fn metrics_count_deliveries_by_source_and_outcome(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        app.deliver("shop", order("evt_1")).await.expect(200, "replayed");
        app.deliver("shop", "x").await.expect(400, "malformed");
        let metrics = app.admin_get("/metrics").await.text();
        for outcome in ["applied", "replayed", "malformed"] {
            let line = format!("hooklatch_deliveries_total{{source=\"shop\",outcome=\"{outcome}\"}} 1");
            assert!(metrics.contains(&line), "{line}:\n{metrics}");
        }
        assert!(metrics.contains("hooklatch_delivery_duration_seconds_bucket"), "{metrics}");
    }

    async fn what_happened_to_an_event_has_an_answer(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        app.deliver("shop", order("evt_1")).await.expect(200, "replayed");
        let history = history(&app, "evt_1", 2).await;
        assert_eq!(history["events"][0]["state"], "applied");
        let mut outcomes: Vec<_> = history["deliveries"].as_array().expect("a list").iter()
            .map(|line| line["outcome"].as_str().unwrap_or("").to_owned())
            .collect();
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["applied", "replayed"]);
        let shown = app.run(&["events", "show", "evt_1"]);
        assert!(shown.status.success() && said(&shown).contains("applied"), "{}", said(&shown));
        assert_eq!(app.admin_get("/api/v1/events/evt_unknown").await.status, 404);
    }

    async fn the_reason_of_a_bad_signature_is_in_the_ledger_only(backend: Backend) {
        let app = Setup::new(backend).sources(GITHUB).start().await;
        let refused = app.deliver("github", order("x")).await;
        refused.expect(401, "unverified");
        let deadline = Instant::now() + LEDGER_WITHIN;
        loop {
            let ledger = app.admin_get("/api/v1/deliveries?outcome=unverified").await.json();
            if let Some(reason) = ledger["deliveries"][0]["reason"].as_str() {
                assert!(!refused.text().contains(reason), "{reason}");
                break;
            }
            assert!(Instant::now() < deadline, "{ledger}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn a_dead_letter_is_applied_once_when_its_cause_is_gone(backend: Backend) {
        let payments = r#"
[[source]]
name = "payments"
verify = { scheme = "none" }
event_id = "body:/id"
[[source.handler]]
sql = "INSERT INTO charges (event_id, account) SELECT id, payload ->> 'account' FROM event"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#;
        let app = Setup::new(backend).sources(payments).start().await;
        let payment = r#"{"id":"pay_1","account":"acc_1"}"#;
        app.deliver("payments", payment).await.expect(422, "rejected");

        let too_early = app.run(&["events", "retry", "--event-id", "pay_1", "--yes"]);
        assert_eq!(app.database.rows("dead_letters").await, 1, "{}", said(&too_early));
        app.database.execute("INSERT INTO accounts (id) VALUES ('acc_1')").await;
        let retried = app.run(&["events", "retry", "--event-id", "pay_1", "--yes"]);
        assert!(retried.status.success(), "{}", said(&retried));

        assert_eq!(app.database.effects_of("pay_1").await, 1);
        assert_eq!(app.database.rows("dead_letters").await, 0);
        let sender_again = app.deliver("payments", payment).await;
        assert_eq!(sender_again.status, 200, "{}", sender_again.text());
        assert_eq!(app.database.effects_of("pay_1").await, 1);
    }

    async fn a_dead_letter_can_be_retried_over_the_admin_interface(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", r#"{"id":"evt_1","data":{"amount":-1}}"#).await.expect(422, "rejected");
        let letters = app.admin_get("/api/v1/dead-letters").await.json();
        let id = letters["dead_letters"][0]["id"].as_str().expect("an id").to_owned();
        let retry = Request::new("POST", &format!("/api/v1/dead-letters/{id}/retry"))
            .header("authorization", format!("Bearer {}", crate::support::app::ADMIN_TOKEN));
        let answer = http::send(app.admin(), &retry).await.expect("answers");
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["outcome"], "rejected");
        assert_eq!(app.database.effects().await, 0);
        assert_eq!(app.database.rows("dead_letters").await, 1);
    }

    async fn check_finds_nothing_wrong_with_a_running_receiver(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let checked = app.run(&["check"]);
        assert!(checked.status.success(), "{}", said(&checked));
    }

    async fn a_forgotten_event_is_new_when_it_is_delivered_again(backend: Backend) {
        let app = Setup::new(backend).effects_may_repeat().start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        let forget = Request::new("DELETE", "/api/v1/events/shop/evt_1");
        let refused = http::send(app.admin(), &forget).await.expect("answers");
        assert_eq!(refused.status, 401, "not without the token");
        let forget = forget.header("authorization", format!("Bearer {}", crate::support::app::ADMIN_TOKEN));
        let forgotten = http::send(app.admin(), &forget).await.expect("answers");
        assert!(forgotten.is_success(), "{}", forgotten.text());
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("evt_1").await, 2);
    }

    async fn a_schema_newer_than_the_program_is_refused(backend: Backend) {
        let mut app = Setup::new(backend).start().await;
        assert_eq!(app.stop(), Some(0));
        app.database.make_newer().await;
        for command in ["migrate", "serve"] {
            let refused = app.run(&[command]);
            assert!(!refused.status.success(), "{command}: {}", said(&refused));
            assert!(said(&refused).contains("9999_from_the_future"), "{command}: {}", said(&refused));
        }
        let status = app.run(&["migrate", "--status"]);
        assert!(said(&status).contains("9999_from_the_future"), "{}", said(&status));
    }
}
