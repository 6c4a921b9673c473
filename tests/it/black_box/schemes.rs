//! What goes wrong between senders and receivers elsewhere, one sender's scheme at a time.

use std::time::Duration;

use super::{GITHUB, github, ledger};
use crate::support::app::{SIGNING_SECRET, order, said, unix_now};
use crate::support::on_both_stores;
use crate::support::signing::{hmac_hex, standard_webhooks};
use crate::support::{Backend, Request, Setup};

const STANDARD_SECRET: &str = "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0ISE=";

const EFFECT: &str =
    "[[source.handler]]\nsql = \"INSERT INTO effects (source, event_id) SELECT source, id FROM event\"\n";

fn source(name: &str, rest: &str) -> String {
    format!("[[source]]\nname = \"{name}\"\n{rest}\n{EFFECT}")
}

fn standard(timestamp: i64) -> Request {
    let timestamp = timestamp.to_string();
    let body = order("x");
    Request::post("/hooks/standard", body.clone())
        .header("webhook-id", "msg_1")
        .header("webhook-timestamp", &timestamp)
        .header("webhook-signature", standard_webhooks(STANDARD_SECRET, "msg_1", &timestamp, body.as_bytes()))
}

fn bearer(source: &str, authorization: &str, body: &str) -> Request {
    Request::post(&format!("/hooks/{source}"), body).header("authorization", authorization)
}

on_both_stores! {
    async fn a_list_of_signatures_is_read_where_the_source_says_so(backend: Backend) {
        let list = source("list", r#"verify = { scheme = "hmac", header = "x-sig", prefix = "sha256=", separator = ",", secrets = ["never-log-this-secret"] }"#);
        let app = Setup::new(backend).sources(&format!("{list}{GITHUB}")).start().await;
        let (body, zeros) = (order("evt_1"), "0".repeat(64));
        let good = hmac_hex(SIGNING_SECRET, body.as_bytes());
        for value in [
            format!("sha256={zeros},sha256={good}"),
            format!("sha256={zeros}, sha256={good}"),
            format!("sha256={good},sha256={zeros}"),
            format!("sha256={},v0=x", good.to_uppercase()),
        ] {
            let listed = app.send(&Request::post("/hooks/list", body.clone()).header("x-sig", &value)).await;
            assert_eq!(listed.status, 200, "{value}");
            let alone = github("d-1", body.clone()).without("x-hub-signature-256").header("x-hub-signature-256", &value);
            app.send(&alone).await.expect(401, "unverified");
        }
        // The decoder does not mind the case of hex.
        let upper = github("d-2", body.clone()).without("x-hub-signature-256").header("x-hub-signature-256", format!("sha256={}", good.to_uppercase()));
        app.send(&upper).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn a_captured_delivery_is_a_duplicate_while_it_verifies_and_refused_afterwards(backend: Backend) {
        let config = source("standard", r#"verify = { scheme = "standard-webhooks", tolerance = "3s", secrets = ["whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0ISE="] }"#);
        let app = Setup::new(backend).sources(&config).start().await;
        let ahead = standard(unix_now() + 2);
        app.send(&ahead).await.expect(200, "applied");
        tokio::time::sleep(Duration::from_millis(3200)).await;
        app.send(&ahead).await.expect(200, "replayed");
        tokio::time::sleep(Duration::from_millis(3000)).await;
        app.send(&ahead).await.expect(401, "unverified");
        assert_eq!(app.database.effects_of("msg_1").await, 1);
    }

    async fn a_captured_body_takes_effect_under_one_id_where_the_source_guards(backend: Backend) {
        let guarded = GITHUB.replace("event_id =", "replay_guard = \"body\"\nevent_id =");
        let mut app = Setup::new(backend).sources(&guarded).start().await;
        app.send(&github("d-1", order("x"))).await.expect(200, "applied");
        app.send(&github("d-2", order("x"))).await.expect(200, "duplicate");
        app.send(&github("d-1", order("x"))).await.expect(200, "replayed");
        assert_eq!(app.stop(), Some(0));
        app.start();
        app.send(&github("d-3", order("x")).header("idempotency-key", "K")).await.expect(200, "duplicate");
        app.send(&github("d-4", order("y")).header("idempotency-key", "K")).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 2);
        let lines = ledger(&app, "outcome=duplicate", 2).await;
        assert!(lines.iter().all(|line| line["reason"].as_str().is_some_and(|r| r.contains("replay_guard"))), "{lines:?}");
    }

    async fn the_word_before_a_token_is_read_in_any_case_and_the_token_in_one(backend: Backend) {
        let config = source("bearer", r#"verify = { scheme = "bearer", secrets = ["never-log-this-secret"] }"#);
        let app = Setup::new(backend).sources(&config).start().await;
        for (n, word) in ["Bearer", "bearer", "BEARER"].iter().enumerate() {
            let request = bearer("bearer", &format!("{word} {SIGNING_SECRET}"), &order(&format!("evt_{n}")));
            app.send(&request).await.expect(200, "applied");
        }
        let upper = SIGNING_SECRET.to_uppercase();
        for wrong in [format!("Bearer {upper}"), format!("Bearer {SIGNING_SECRET}x"), SIGNING_SECRET.to_owned(), "Bearer".to_owned(), format!("Basic {SIGNING_SECRET}")] {
            app.send(&bearer("bearer", &wrong, &order("evt_x"))).await.expect(401, "unverified");
        }
        assert_eq!(app.database.effects().await, 3);
    }

    async fn a_delivery_repeated_three_times_has_one_effect(backend: Backend) {
        let app = Setup::new(backend).sources(GITHUB).start().await;
        let delivery = github("d-1", order("x"));
        for outcome in ["applied", "replayed", "replayed"] {
            app.send(&delivery).await.expect(200, outcome);
        }
        assert_eq!(app.database.effects_of("d-1").await, 1);
    }

    async fn a_subscription_is_not_taken_for_an_event(backend: Backend) {
        let app = Setup::new(backend).sources(&source("linear", r#"verify = { scheme = "linear", secrets = ["never-log-this-secret"] }"#)).start().await;
        for (delivery, action) in [("l-1", "create"), ("l-2", "update"), ("l-2", "update")] {
            let now = unix_now() * 1000;
            let body = format!(r#"{{"action":"{action}","type":"Issue","webhookId":"sub-1","webhookTimestamp":{now}}}"#);
            let signature = hmac_hex(SIGNING_SECRET, body.as_bytes());
            let request = Request::post("/hooks/linear", body).header("linear-delivery", delivery).header("linear-signature", signature);
            assert!(app.send(&request).await.is_success());
        }
        assert_eq!(app.database.effects().await, 2);
    }

    async fn an_id_is_unique_within_what_the_sender_says_only(backend: Backend) {
        let config = source("cloudevents", r#"verify = { scheme = "cloudevents", secrets = ["never-log-this-secret"] }"#);
        let app = Setup::new(backend).sources(&config).start().await;
        let token = format!("Bearer {SIGNING_SECRET}");
        let event = |source: &str| format!(r#"{{"specversion":"1.0","id":"1","source":"{source}","type":"t"}}"#);
        app.send(&bearer("cloudevents", &token, &event("/a"))).await.expect(200, "applied");
        app.send(&bearer("cloudevents", &token, &event("/b"))).await.expect(200, "applied");
        app.send(&bearer("cloudevents", &token, &event("/a"))).await.expect(200, "replayed");
        // The same event in binary mode.
        let binary = bearer("cloudevents", &token, r#"{"n":1}"#).header("ce-id", "1").header("ce-source", "/b").header("ce-type", "t");
        app.send(&binary).await.expect(200, "replayed");
        let list = bearer("cloudevents", &token, &format!("[{},{}]", event("/c"), event("/a")));
        app.send(&list).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 3);
    }

    async fn without_an_id_a_delivery_is_refused_or_known_by_its_bytes(backend: Backend) {
        let by_bytes = source("bytes", "verify = { scheme = \"none\" }\nevent_id = \"digest\"");
        let none = source("strict", "verify = { scheme = \"none\" }");
        let app = Setup::new(backend).sources(&format!("{by_bytes}{none}")).start().await;
        app.deliver("strict", r#"{"amount":1}"#).await.expect_problem(400, "missing-event-id");
        app.deliver("bytes", r#"{"amount":1}"#).await.expect(200, "applied");
        // Two that are alike to the byte are one; one whose bytes changed is two.
        app.deliver("bytes", r#"{"amount":1}"#).await.expect(200, "replayed");
        app.deliver("bytes", r#"{"amount":1,"attempt":2}"#).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 2);
    }

    async fn the_operator_reads_why_each_delivery_was_refused(backend: Backend) {
        let rotated = source("rotated", r#"verify = { scheme = "github", secrets = [{ secret = "never-log-this-secret", not_after = "2020-01-01T00:00:00Z" }, "another"] }"#);
        let stripe = source("stripe", r#"verify = { scheme = "stripe", secrets = ["never-log-this-secret"] }"#);
        let app = Setup::new(backend).sources(&format!("{GITHUB}{rotated}{stripe}")).start().await;
        let body = order("x");
        let old = unix_now() - 1000;
        let signed = |t: i64, field: &str| format!("t={t},{field}={}", hmac_hex(SIGNING_SECRET, format!("{t}.{body}").as_bytes()));
        let mut changed = github("d-1", body.clone());
        changed.body.push(b'\n');
        let mut rotated = github("d-1", body.clone());
        rotated.target = "/hooks/rotated".into();
        for request in [
            github("d-1", body.clone()).without("x-hub-signature-256").header("authorization", "Bearer never-log-this-secret"),
            changed,
            rotated,
            Request::post("/hooks/stripe", body.clone()).header("stripe-signature", signed(old, "v1")),
            Request::post("/hooks/stripe", body.clone()).header("stripe-signature", signed(unix_now(), "v0")),
            github("d-1", "not json"),
            github("d-1", body.clone()).without("x-github-delivery"),
        ] {
            app.send(&request).await.expect_refusal();
        }
        ledger(&app, "", 7).await;
        let shown = said(&app.run(&["events", "refused"]));
        for reason in [
            "header `x-hub-signature-256` is missing",
            "differs from what was signed",
            "that secret ended at 2020-01-01T00:00:00Z",
            "s old, more than 300 s",
            "only a `v0` signature, which the sender adds in test mode",
            "x-github-delivery",
            "from 127.0.0.1",
            "7 in all",
        ] {
            assert!(shown.contains(reason), "{reason}\n{shown}");
        }
        assert!(!shown.contains("x-github-event"), "headers are shown when asked for: {shown}");
        let detailed = said(&app.run(&["events", "refused", "--headers", "--json", "--source", "github"]));
        assert!(detailed.contains(r#"["x-github-event","push"]"#), "{detailed}");
        assert!(detailed.contains(r#"["authorization","[hidden, 28 bytes]"]"#), "{detailed}");
        let good = hmac_hex(SIGNING_SECRET, body.as_bytes());
        assert!(!detailed.contains(SIGNING_SECRET) && !detailed.contains(&good), "{detailed}");
        assert_eq!(detailed.lines().count(), 4, "{detailed}");
        let later = said(&app.run(&["events", "refused", "--since", "2100-01-01T00:00:00Z"]));
        assert!(later.contains("nothing was refused"), "{later}");
    }

    async fn check_says_what_a_captured_delivery_could_do(backend: Backend) {
        let discord = source("discord", r#"verify = { scheme = "discord", secrets = ["03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"] }"#);
        let guarded = GITHUB.replace("name = \"github\"", "name = \"guarded\"\nreplay_guard = \"body\"\nevent_time = \"body:/at\"");
        let token = source("token", "replay_guard = \"body\"\nverify = { scheme = \"bearer\", secrets = [\"never-log-this-secret\"] }");
        let stripe = source("stripe", r#"verify = { scheme = "stripe", secrets = ["never-log-this-secret"] }"#);
        let app = Setup::new(backend).sources(&format!("{GITHUB}{guarded}{discord}{token}{stripe}")).start().await;
        let said_of = |shown: &str, source: &str| -> Vec<String> {
            let about = format!(" source {source}: ");
            shown.lines().filter(|line| line.contains(&about)).map(str::to_owned).collect()
        };
        let checked = app.run(&["check"]);
        let shown = said(&checked);
        assert!(checked.status.success(), "{shown}");
        let github = said_of(&shown, "github").join("\n");
        assert!(github.contains("the event id is in header:x-github-delivery, which is not signed"), "{shown}");
        assert!(github.contains("verifies for ever"), "{shown}");
        assert!(said_of(&shown, "guarded").iter().all(|line| line.starts_with('✓')), "{shown}");
        let stripe = said_of(&shown, "stripe").join("\n");
        assert!(stripe.contains("remembered for 30d, the sender retries for 3d"), "{shown}");
        assert!(!stripe.contains('!'), "{shown}");
        let public = shown.lines().filter(|line| line.contains("source[2].verify"));
        assert_eq!(public.count(), 0, "a public key is no secret: {shown}");
        assert!(shown.contains("source[0].verify.secrets: the secret stands in the configuration"), "{shown}");
        assert!(shown.contains("source[3].replay_guard: it guards little"), "{shown}");
    }
}
