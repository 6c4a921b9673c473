//! Senders ask whether an address is ours; only those who may ask are answered.

use bytes::Bytes;
use hooklatch::config::SecretRef;
use hooklatch::event::RawRequest;
use hooklatch::raw_headers::RawHeaders;
use hooklatch::reply::Reply;
use hooklatch::secret::Secret;
use hooklatch::signature::{Verifier, VerifyConfig};

use super::now;

fn verifier(scheme: &str, secret: &str) -> Verifier {
    let config = VerifyConfig {
        scheme: scheme.to_owned(),
        handshake_token: (scheme == "meta").then(|| SecretRef::Literal(Secret::new("agreed"))),
        ..VerifyConfig::default()
    };
    Verifier::new(&config, vec![Secret::new(secret)]).expect("a valid configuration")
}

/// A question as its sender signs it.
fn ask(scheme: &str, secret: &str, body: &str, more: &[(&str, &str)]) -> Option<Reply> {
    let verifier = verifier(scheme, secret);
    let signed = verifier.sign_request("POST", "/", body.as_bytes(), "m-1", now()).expect("signs");
    let mut headers: RawHeaders = signed.headers.into_iter().collect();
    headers.extend(more.iter().copied());
    let request = RawRequest { target: "/".into(), headers, body: Bytes::from(signed.body) };
    let answer = verifier.handshake("POST", &request, now());
    let forged = RawRequest { body: Bytes::from(format!("{body} ")), ..request };
    assert_eq!(verifier.handshake("POST", &forged, now()), None, "{scheme}: a forged question");
    answer
}

fn get(scheme: &str, target: &str) -> Option<Reply> {
    let request = RawRequest { target: target.into(), headers: RawHeaders::new(), body: Bytes::new() };
    verifier(scheme, "secret").handshake("GET", &request, now())
}

fn text(reply: Option<Reply>) -> (u16, String) {
    let reply = reply.expect("an answer");
    (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
}

#[test]
fn slack_and_twitch_get_their_challenge_back() {
    let question = r#"{"token":"t","challenge":"3eZbrw1aBm2r","type":"url_verification"}"#;
    assert_eq!(text(ask("slack", "s", question, &[])), (200, "3eZbrw1aBm2r".into()));
    assert_eq!(ask("slack", "s", r#"{"type":"event_callback","challenge":"x"}"#, &[]), None);
    let kind = [("twitch-eventsub-message-type", "webhook_callback_verification")];
    assert_eq!(text(ask("twitch", "s", r#"{"challenge":"pogchamp"}"#, &kind)), (200, "pogchamp".into()));
    assert_eq!(
        ask("twitch", "s", r#"{"challenge":"x"}"#, &[("twitch-eventsub-message-type", "notification")]),
        None
    );
}

#[test]
fn zoom_gets_a_hash_that_only_the_secret_gives() {
    let question = r#"{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}"#;
    let (status, body) = text(ask("zoom", "zoom-secret-token-1", question, &[]));
    let hash = "0e5b0d12b8a75ee80179999fbb875d29b1469544a54e8863e0687da36bade919";
    assert_eq!(status, 200);
    assert_eq!(body, format!(r#"{{"encryptedToken":"{hash}","plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}"#));
}

#[test]
fn discord_pings_are_told_from_events() {
    let seed = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    assert_eq!(text(ask("discord", seed, r#"{"type":1}"#, &[])), (200, r#"{"type":1}"#.into()));
    assert_eq!(text(ask("discord", seed, r#"{"type":0}"#, &[])), (204, String::new()));
    assert_eq!(ask("discord", seed, r#"{"type":1,"event":{"type":"ENTITLEMENT_CREATE"}}"#, &[]), None);
    assert_eq!(ask("discord", seed, r#"{"type":2}"#, &[]), None);
}

#[test]
fn xero_asks_with_no_events() {
    assert_eq!(text(ask("xero", "s", r#"{"events":[],"entropy":"x"}"#, &[])), (200, String::new()));
    assert_eq!(ask("xero", "s", r#"{"events":[{}]}"#, &[]), None);
}

#[test]
fn meta_shows_the_agreed_token_and_dropbox_needs_none() {
    let target =
        |token: &str| format!("/hooks/m?hub.mode=subscribe&hub.challenge=115%38&hub.verify_token={token}");
    assert_eq!(text(get("meta", &target("agreed"))), (200, "1158".into()));
    assert_eq!(text(get("meta", &target("guessed"))), (403, String::new()));
    assert_eq!(get("meta", "/hooks/m"), None);
    let reply = get("dropbox", "/hooks/d?challenge=abc").expect("an answer");
    assert!(reply.headers.contains(&("x-content-type-options".into(), "nosniff".into())));
    assert_eq!(text(Some(reply)), (200, "abc".into()));
    assert_eq!(get("dropbox", "/hooks/d?challenge=%0d%0a"), None);
    assert_eq!(get("github", "/hooks/d?challenge=abc"), None);
}

#[test]
fn cloudevents_are_allowed_to_come() {
    let ask = |headers: &[(&str, &str)]| {
        let headers = headers.iter().copied().collect();
        let request = RawRequest { target: "/".into(), headers, body: Bytes::new() };
        verifier("cloudevents", "secret").handshake("OPTIONS", &request, now())
    };
    let reply =
        ask(&[("webhook-request-origin", "eventemitter.example.com"), ("webhook-request-rate", "120")]);
    let reply = reply.expect("an answer");
    assert_eq!(reply.status, 200);
    assert!(reply.headers.contains(&("webhook-allowed-origin".into(), "eventemitter.example.com".into())));
    assert!(reply.headers.contains(&("webhook-allowed-rate".into(), "*".into())));
    assert_eq!(ask(&[]), None);
}
