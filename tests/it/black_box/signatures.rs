//! Who may deliver: signatures over the bytes as they came, within a window of time.

use super::{GITHUB, github};
use crate::support::app::{SIGNING_SECRET, order, unix_now};
use crate::support::on_both_stores;
use crate::support::signing::{hmac_hex, standard_webhooks};
use crate::support::{Backend, Request, Setup};

/// 24 bytes, as the reference implementations make them.
const STANDARD_SECRET: &str = "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0ISE=";

const STANDARD: &str = r#"
[[source]]
name = "standard"
verify = { scheme = "standard-webhooks", secrets = ["whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0ISE="] }
event_id = "header:webhook-id"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#;

const STRIPE_LIKE: &str = r#"
[[source]]
name = "stripe"
verify = { scheme = "hmac", header = "stripe-signature", separator = ",", signature_field = "v1", timestamp_field = "t", signed = "{timestamp}.{body}", tolerance = "5m", secrets = ["never-log-this-secret", "an-older-secret"] }
event_id = "body:/id"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#;

fn standard(id: &str, timestamp: &str, body: &str) -> Request {
    Request::post("/hooks/standard", body)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", standard_webhooks(STANDARD_SECRET, id, timestamp, body.as_bytes()))
}

fn stripe(header: &str, body: &str) -> Request {
    Request::post("/hooks/stripe", body).header("stripe-signature", header)
}

fn v1(secret: &str, timestamp: i64, body: &str) -> String {
    hmac_hex(secret, format!("{timestamp}.{body}").as_bytes())
}

on_both_stores! {
    async fn a_standard_webhooks_delivery_is_accepted_once(backend: Backend) {
        let app = Setup::new(backend).sources(STANDARD).start().await;
        let now = unix_now().to_string();
        app.send(&standard("msg_1", &now, &order("x"))).await.expect(200, "applied");
        app.send(&standard("msg_1", &now, &order("x"))).await.expect(200, "replayed");
        // Signed again for the retry, as relays do.
        let later = (unix_now() + 1).to_string();
        app.send(&standard("msg_1", &later, &order("x"))).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("msg_1").await, 1);
    }

    async fn only_timestamps_within_the_window_pass(backend: Backend) {
        let app = Setup::new(backend).sources(STANDARD).start().await;
        let now = unix_now();
        for (n, offset) in [-290, 290].iter().enumerate() {
            let request = standard(&format!("msg_{n}"), &(now + offset).to_string(), &order("x"));
            app.send(&request).await.expect(200, "applied");
        }
        let stamps = [
            (now - 310).to_string(),
            (now + 310).to_string(),
            (now + 31_536_000).to_string(),
            "0".into(),
            "-1".into(),
            "1e9".into(),
            "99999999999999999999".into(),
            format!("+{now}"),
            format!("{now}.0"),
            String::new(),
        ];
        for stamp in stamps {
            let answer = app.send(&standard("msg_x", &stamp, &order("x"))).await;
            assert_eq!((answer.status, answer.outcome()), (401, "unverified"), "{stamp:?}");
        }
        assert_eq!(app.database.effects().await, 2);
    }

    async fn any_of_several_signatures_and_secrets_may_be_the_good_one(backend: Backend) {
        let app = Setup::new(backend).sources(STRIPE_LIKE).start().await;
        let (now, body, zeros) = (unix_now(), order("evt_1"), "0".repeat(64));
        let good = v1(SIGNING_SECRET, now, &body);
        let old = v1("an-older-secret", now, &body);
        for header in [
            format!("t={now},v1={good},v1={zeros}"),
            format!("t={now},v1={zeros},v1={good}"),
            format!("t={now},v1={zeros},v1={good},v0=x"),
            format!("v1={good},t={now}"),
            format!("t={now},v1={old}"),
        ] {
            let answer = app.send(&stripe(&header, &body)).await;
            assert!(answer.is_success(), "{header}: {answer:?}");
        }
        for header in [
            format!("t={now},v1={zeros},v1={zeros}"),
            format!("t={now}"),
            format!("v1={good}"),
            format!("t={now},v1={}", v1("a stranger's", now, &body)),
            format!("t={},v1={good}", now + 1),
        ] {
            app.send(&stripe(&header, &body)).await.expect(401, "unverified");
        }
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn malformed_signatures_are_refused_alike_and_never_fail(backend: Backend) {
        let app = Setup::new(backend).sources(GITHUB).start().await;
        let good = hmac_hex(SIGNING_SECRET, order("x").as_bytes());
        let refused: Vec<Vec<u8>> = [
            "sha256=abc".to_owned(),
            "sha256=".into(),
            "abc".into(),
            String::new(),
            format!("sha256={}", "z".repeat(64)),
            format!("sha256={good}0"),
            format!("SHA256={good}"),
            format!("sha256=sha256={good}"),
        ]
        .into_iter()
        .map(String::into_bytes)
        .chain([b"sha256=\xe9\xff".to_vec()])
        .collect();
        let mut bodies = Vec::new();
        for value in refused {
            let request = github("d-1", order("x")).without("x-hub-signature-256").header("x-hub-signature-256", &value);
            let answer = app.send(&request).await;
            answer.expect(401, "unverified");
            bodies.push(answer.body);
        }
        bodies.push(app.send(&github("d-1", order("x")).without("x-hub-signature-256")).await.body);
        assert!(bodies.iter().all(|body| *body == bodies[0]), "the sender is not told why");
        let twice = github("d-1", order("x")).header("x-hub-signature-256", "sha256=00");
        app.send(&twice).await.expect(401, "unverified");
        app.send(&github("d-1", order("x"))).await.expect(200, "applied");
    }

    async fn every_byte_of_the_body_is_signed(backend: Backend) {
        let app = Setup::new(backend).sources(GITHUB).start().await;
        app.send(&github("d-crlf", format!("{}\r\n", order("x")))).await.expect(200, "applied");
        let mut cut = github("d-cut", format!("{}\r\n", order("x")));
        cut.body.truncate(cut.body.len() - 2);
        app.send(&cut).await.expect(401, "unverified");
    }
}
