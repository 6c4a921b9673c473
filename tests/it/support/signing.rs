//! Signatures, made as a sender makes them, without the product's code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HMAC-SHA256 in lower-case hex.
pub(crate) fn hmac_hex(secret: &str, content: &[u8]) -> String {
    hex::encode(hmac(secret.as_bytes(), content))
}

/// HMAC-SHA256 in base64.
pub(crate) fn hmac_base64(secret: &str, content: &[u8]) -> String {
    STANDARD.encode(hmac(secret.as_bytes(), content))
}

/// `v1,…` over `id.timestamp.body`, with a `whsec_` secret (Standard Webhooks).
pub(crate) fn standard_webhooks(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("the test's secret is base64");
    let mut content = format!("{id}.{timestamp}.").into_bytes();
    content.extend_from_slice(body);
    format!("v1,{}", STANDARD.encode(hmac(&key, &content)))
}

fn hmac(key: &[u8], content: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(content);
    mac.finalize().into_bytes().to_vec()
}

/// HMAC against the published example of RFC 4231, so that a mistake here cannot hide one there.
#[test]
fn the_signing_side_agrees_with_rfc_4231() {
    assert_eq!(
        hmac_hex("Jefe", b"what do ya want for nothing?"),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

/// Our Standard Webhooks signature against the reference library's verifier.
#[test]
fn the_signing_side_agrees_with_the_reference_library() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = br#"{"id":"evt_1"}"#;
    let now = super::app::unix_now().to_string();
    let webhook = standardwebhooks::Webhook::new(secret).expect("a valid secret");
    let signed = webhook.sign("msg_1", now.parse().expect("a number"), body).expect("signs");
    assert_eq!(standard_webhooks(secret, "msg_1", &now, body), signed);
}
