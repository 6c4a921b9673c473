//! Senders ask whether an address is ours: they are answered over HTTP, and no question is an event.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hooklatch::clock::Clock;
use hooklatch::secret::Secret;
use hooklatch::signature::{Verifier, VerifyConfig};

use super::ledger;
use crate::support::app::{TestApp, unix_now};
use crate::support::on_both_stores;
use crate::support::signing::{hmac_base64, hmac_hex};
use crate::support::{Answer, Backend, Request, Setup};

const SECRET: &str = "never-log-this-secret";

/// The seed of the key pair whose public half is in [`SOURCES`].
const DISCORD_SEED: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

const SOURCES: &str = r#"
[[source]]
name = "slack"
verify = { scheme = "slack", secrets = ["never-log-this-secret"] }
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
[[source]]
name = "zoom"
verify = { scheme = "zoom", secrets = ["another", "never-log-this-secret"] }
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
[[source]]
name = "twitch"
verify = { scheme = "twitch", secrets = ["never-log-this-secret"] }
[[source]]
name = "discord"
verify = { scheme = "discord", secrets = ["03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"] }
[[source]]
name = "xero"
verify = { scheme = "xero", secrets = ["never-log-this-secret"] }
[[source]]
name = "meta"
verify = { scheme = "meta", secrets = ["never-log-this-secret"], handshake_token = "never-log-this-token" }
[[source]]
name = "dropbox"
verify = { scheme = "dropbox", secrets = ["never-log-this-secret"] }
[[source]]
name = "cloudevents"
verify = { scheme = "cloudevents", secrets = ["never-log-this-secret"] }
[[source]]
name = "fenced"
verify = { scheme = "dropbox", secrets = ["never-log-this-secret"], allow_ips = ["192.0.2.0/24"] }
"#;

async fn start(backend: Backend) -> TestApp {
    Setup::new(backend).sources(SOURCES).start().await
}

fn slack(body: &str) -> Request {
    let now = unix_now().to_string();
    Request::post("/hooks/slack", body).header("x-slack-request-timestamp", &now).header(
        "x-slack-signature",
        format!("v0={}", hmac_hex(SECRET, format!("v0:{now}:{body}").as_bytes())),
    )
}

fn zoom(body: &str) -> Request {
    let now = unix_now().to_string();
    Request::post("/hooks/zoom", body)
        .header("x-zm-request-timestamp", &now)
        .header("x-zm-signature", format!("v0={}", hmac_hex(SECRET, format!("v0:{now}:{body}").as_bytes())))
}

fn xero(body: &str) -> Request {
    let signature = hmac_base64(SECRET, body.as_bytes());
    Request::post("/hooks/xero", body).header("x-xero-signature", signature)
}

/// Signed with a key that only the sender has, by the product's own signer: the published vectors
/// vouch for it.
fn discord(body: &str) -> Request {
    let config = VerifyConfig { scheme: "discord".into(), ..VerifyConfig::default() };
    let signer = Verifier::new(&config, vec![Secret::new(DISCORD_SEED)]).expect("a key");
    let signed = signer.sign("POST", "/hooks/discord", body.as_bytes(), "m", Clock::system().now());
    signed
        .expect("signs")
        .into_iter()
        .fold(Request::post("/hooks/discord", body), |request, (name, value)| request.header(&name, value))
}

/// Every question leaves the inbox as it was.
async fn no_event(app: &TestApp) {
    assert_eq!(app.database.effects().await, 0);
    assert_eq!(app.database.rows("processed_events").await, 0);
}

fn tampered(mut request: Request) -> Request {
    let last = request.body.len() - 1;
    request.body.insert(last, b' ');
    request
}

#[track_caller]
fn echoed(answer: &Answer, text: &str) {
    answer.expect(200, "handshake");
    assert_eq!(answer.text(), text);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.header("set-cookie"), None);
}

on_both_stores! {
    async fn slack_and_twitch_get_their_challenge_back_over_http(backend: Backend) {
        let app = start(backend).await;
        let question = r#"{"token":"t","challenge":"3eZbrw1aBm2r","type":"url_verification"}"#;
        echoed(&app.send(&slack(question)).await, "3eZbrw1aBm2r");
        app.send(&tampered(slack(question))).await.expect(401, "unverified");
        app.send(&Request::post("/hooks/slack", question)).await.expect(401, "unverified");
        let twitch = |body: &str| {
            let at = Clock::system().now().to_rfc3339();
            let signed = hmac_hex(SECRET, format!("m-1{at}{body}").as_bytes());
            Request::post("/hooks/twitch", body)
                .header("twitch-eventsub-message-id", "m-1")
                .header("twitch-eventsub-message-timestamp", &at)
                .header("twitch-eventsub-message-type", "webhook_callback_verification")
                .header("twitch-eventsub-message-signature", format!("sha256={signed}"))
        };
        let question = r#"{"challenge":"pogchamp-kappa","subscription":{"type":"channel.follow"}}"#;
        echoed(&app.send(&twitch(question)).await, "pogchamp-kappa");
        app.send(&tampered(twitch(question))).await.expect(401, "unverified");
        no_event(&app).await;
    }

    async fn zoom_gets_the_hash_of_the_secret_that_signed(backend: Backend) {
        let app = start(backend).await;
        let question = r#"{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}"#;
        let answer = app.send(&zoom(question)).await;
        answer.expect(200, "handshake");
        assert_eq!(answer.json()["plainToken"], "qgg8vlvZRS6UYooatFL8Aw");
        assert_eq!(answer.json()["encryptedToken"], hmac_hex(SECRET, b"qgg8vlvZRS6UYooatFL8Aw"));
        app.send(&tampered(zoom(question))).await.expect(401, "unverified");
        no_event(&app).await;
    }

    async fn discord_probes_with_good_and_bad_signatures(backend: Backend) {
        let app = start(backend).await;
        let pong = app.send(&discord(r#"{"type":1}"#)).await;
        pong.expect(200, "handshake");
        assert_eq!(pong.text(), r#"{"type":1}"#);
        app.send(&discord(r#"{"type":0}"#)).await.expect(204, "handshake");
        app.send(&tampered(discord(r#"{"type":1}"#))).await.expect(401, "unverified");
        app.send(&Request::post("/hooks/discord", r#"{"type":1}"#)).await.expect(401, "unverified");
        no_event(&app).await;
        app.send(&discord(r#"{"type":2,"id":"i-1"}"#)).await.expect(200, "ignored");
    }

    async fn xero_s_intent_to_receive_gets_200_or_401_and_no_body(backend: Backend) {
        let app = start(backend).await;
        let question = r#"{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3"}"#;
        let good = app.send(&xero(question)).await;
        good.expect(200, "handshake");
        let bad = app.send(&xero(question).without("x-xero-signature").header("x-xero-signature", STANDARD.encode([7; 32]))).await;
        bad.expect(401, "unverified");
        for answer in [&good, &bad] {
            assert_eq!((answer.body.len(), answer.header("set-cookie")), (0, None), "{answer:?}");
        }
        no_event(&app).await;
    }

    async fn meta_and_dropbox_ask_with_get(backend: Backend) {
        let app = start(backend).await;
        let meta = |token: &str| Request::new("GET", &format!("/hooks/meta?hub.mode=subscribe&hub.challenge=115%38&hub.verify_token={token}"));
        echoed(&app.send(&meta("never-log-this-token")).await, "1158");
        let wrong = app.send(&meta("guessed")).await;
        wrong.expect(403, "unverified");
        assert_eq!(wrong.body, b"");
        echoed(&app.send(&Request::new("GET", "/hooks/dropbox?challenge=abc")).await, "abc");
        app.send(&Request::new("GET", "/hooks/dropbox")).await.expect_problem(400, "malformed-request");
        app.send(&Request::new("GET", "/hooks/dropbox?challenge=%0d%0aset-cookie:x")).await.expect(400, "malformed");
        app.send(&Request::new("GET", "/hooks/fenced?challenge=abc")).await.expect(401, "unverified");
        no_event(&app).await;
    }

    async fn cloudevents_ask_with_options(backend: Backend) {
        let app = start(backend).await;
        let ask = Request::new("OPTIONS", "/hooks/cloudevents")
            .header("webhook-request-origin", "eventemitter.example.com")
            .header("webhook-request-rate", "120");
        let answer = app.send(&ask).await;
        answer.expect(200, "handshake");
        assert_eq!(answer.header("webhook-allowed-origin"), Some("eventemitter.example.com"));
        assert_eq!(answer.header("webhook-allowed-rate"), Some("*"));
        assert_eq!(answer.header("allow"), Some("POST"));
        app.send(&Request::new("OPTIONS", "/hooks/cloudevents")).await.expect(400, "malformed");
        no_event(&app).await;
    }

    async fn a_method_that_a_source_does_not_have_is_405_and_says_which_it_has(backend: Backend) {
        let app = start(backend).await;
        for (method, path, allow) in [
            ("GET", "/hooks/slack", "POST"),
            ("GET", "/hooks/nobody", "POST"),
            ("OPTIONS", "/hooks/meta", "POST, GET"),
            ("PUT", "/hooks/dropbox?challenge=x", "POST, GET"),
            ("DELETE", "/hooks/cloudevents", "POST, OPTIONS"),
            ("GET", "/hooks/cloudevents", "POST, OPTIONS"),
        ] {
            let answer = app.send(&Request::new(method, path)).await;
            answer.expect_problem(405, "method-not-allowed");
            assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        }
    }

    async fn questions_are_counted_and_stand_in_the_ledger(backend: Backend) {
        let app = start(backend).await;
        app.send(&Request::new("GET", "/hooks/dropbox?challenge=abc")).await.expect(200, "handshake");
        app.send(&xero(r#"{"events":[]}"#)).await.expect(200, "handshake");
        app.send(&Request::new("GET", "/hooks/meta?hub.mode=subscribe&hub.challenge=1&hub.verify_token=x")).await.expect(403, "unverified");
        let metrics = app.admin_get("/metrics").await.text();
        for line in [
            r#"hooklatch_deliveries_total{source="dropbox",outcome="handshake"} 1"#,
            r#"hooklatch_deliveries_total{source="xero",outcome="handshake"} 1"#,
            r#"hooklatch_deliveries_total{source="meta",outcome="unverified"} 1"#,
        ] {
            assert!(metrics.contains(line), "{line}\n{metrics}");
        }
        let lines = ledger(&app, "outcome=handshake", 2).await;
        assert!(lines.iter().all(|line| line["status"] == 200 && line["event_id"].is_null()), "{lines:?}");
        let refused = ledger(&app, "outcome=unverified", 1).await;
        assert!(refused[0]["reason"].as_str().is_some_and(|reason| reason.contains("handshake_token")), "{refused:?}");
    }
}
