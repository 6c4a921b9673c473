//! What is signed as each sender signs is accepted, and refused as soon as one bit of it changes.

use bytes::Bytes;
use hooklatch::event::RawRequest;
use hooklatch::secret::Secret;
use hooklatch::signature::{Preset, Verifier, VerifyConfig, generate};

use super::now;

const TARGET: &str = "/hooks/x?a=1";

/// Everything a preset cannot know.
fn config(preset: &Preset) -> VerifyConfig {
    let mut config = VerifyConfig { scheme: preset.scheme.to_owned(), ..VerifyConfig::default() };
    if preset.needs_url() {
        config.url = Some("https://hooks.example/hooks/x".to_owned());
    }
    config
}

/// A body that the sender could send.
fn body(preset: &Preset) -> &'static [u8] {
    match preset.scheme {
        "adyen" => {
            br#"{"notificationItems":[{"NotificationRequestItem":{"pspReference":"p","eventCode":"CAPTURE","success":"true","amount":{"value":1,"currency":"EUR"}}}]}"#
        }
        "linear" => br#"{"webhookTimestamp":1700000000000}"#,
        _ => br#"{"id":"evt_1"}"#,
    }
}

/// With a fresh secret: who signs, and who verifies.
fn pair(preset: &Preset, asymmetric: bool) -> (Verifier, Verifier) {
    let generated = generate(preset.scheme, asymmetric).unwrap_or_else(|e| panic!("{}: {e}", preset.scheme));
    let build = |secret: &str| {
        Verifier::new(&config(preset), vec![Secret::new(secret)])
            .unwrap_or_else(|error| panic!("{}: {error}", preset.scheme))
    };
    let signer = build(generated.secret.expose());
    let verifier = build(generated.public.as_deref().unwrap_or(generated.secret.expose()));
    (signer, verifier)
}

fn senders() -> impl Iterator<Item = (&'static Preset, bool)> {
    let symmetric = Preset::all().filter(|preset| preset.scheme != "paypal").map(|preset| (preset, false));
    symmetric
        .chain(Preset::all().filter(|p| matches!(p.scheme, "standard-webhooks" | "svix")).map(|p| (p, true)))
}

fn made(preset: &Preset, signer: &Verifier) -> RawRequest {
    let signed = signer
        .sign_request("POST", TARGET, body(preset), "msg_1", now())
        .unwrap_or_else(|error| panic!("{}: {error}", preset.scheme));
    RawRequest {
        target: signed.target.as_str().into(),
        headers: signed.headers.into_iter().collect(),
        body: Bytes::from(signed.body),
    }
}

#[test]
fn every_sender_s_requests_can_be_made_and_are_accepted() {
    for (preset, asymmetric) in senders() {
        let (signer, verifier) = pair(preset, asymmetric);
        let request = made(preset, &signer);
        let outcome = verifier.verify("POST", &request, now());
        assert!(outcome.is_ok(), "{}: {}", preset.scheme, outcome.unwrap_err());
        let (_, stranger) = pair(preset, asymmetric);
        assert!(stranger.verify("POST", &request, now()).is_err(), "{}", preset.scheme);
    }
}

#[test]
fn no_bit_of_what_is_signed_can_change() {
    for (preset, asymmetric) in senders() {
        let (signer, verifier) = pair(preset, asymmetric);
        let request = made(preset, &signer);
        // A token signs nothing, and of these two only a part of the body is signed.
        let signs_body = !matches!(
            preset.scheme,
            "adyen" | "mailgun" | "telegram" | "gitlab" | "postmark" | "cloudevents"
        );
        for bit in 0..if signs_body { request.body.len() * 8 } else { 0 } {
            let mut changed = request.clone();
            changed.body = flipped(&request.body, bit);
            assert!(verifier.verify("POST", &changed, now()).is_err(), "{} body {bit}", preset.scheme);
        }
        for (index, (name, value)) in request.headers.iter().enumerate() {
            for bit in 0..value.len() * 8 {
                let flipped = flipped(value, bit);
                if means_the_same(name, value, &flipped) {
                    continue;
                }
                let headers = request.headers.iter().enumerate();
                let headers =
                    headers.map(|(at, (name, value))| (name, if at == index { &flipped } else { value }));
                let changed = RawRequest { headers: headers.collect(), ..request.clone() };
                let outcome = verifier.verify("POST", &changed, now());
                assert!(outcome.is_err(), "{} header {name} bit {bit}", preset.scheme);
            }
        }
    }
}

fn flipped(bytes: &[u8], bit: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    Bytes::from(bytes)
}

/// Hex and the word before a credential may be in any case; the content type is not signed.
fn means_the_same(name: &str, before: &[u8], after: &[u8]) -> bool {
    if name == "content-type" {
        return true;
    }
    let at = before.iter().zip(after).position(|(a, b)| a != b).unwrap_or(0);
    let is_hex = before.rsplit(|byte| *byte == b'=' || *byte == b' ').next().is_some_and(|last| {
        last.len() >= 40 && last.iter().all(u8::is_ascii_hexdigit) && at >= before.len() - last.len()
    });
    let is_word = name == "authorization" && at < before.iter().position(|b| *b == b' ').unwrap_or(0);
    (is_hex || is_word) && before.eq_ignore_ascii_case(after)
}
