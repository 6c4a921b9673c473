//! PayPal's way from end to end, with a root of our own and without the network.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use hooklatch::config::SecretRef;
use hooklatch::event::RawRequest;
use hooklatch::secret::Secret;
use hooklatch::signature::{
    CertificateSource, CertificateUrl, Certificates, Refusal, Verifier, VerifyConfig,
};

const URL: &str = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270";

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/paypal").join(name);
    std::fs::read_to_string(path).expect("a file beside the vectors")
}

/// After the certificates were made.
fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_secs(1_800_000_000).expect("a time in 2027")
}

/// Hands out a file, and counts.
struct Shelf {
    pem: Result<&'static str, ()>,
    asked: AtomicUsize,
}

#[async_trait]
impl CertificateSource for Shelf {
    async fn fetch(&self, _: &CertificateUrl) -> Result<String, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.pem.map(file).map_err(|()| "not there".to_owned())
    }
}

fn shelf(pem: Result<&'static str, ()>) -> Arc<Shelf> {
    Arc::new(Shelf { pem, asked: AtomicUsize::new(0) })
}

fn config() -> VerifyConfig {
    VerifyConfig {
        scheme: "paypal".into(),
        webhook_id: Some("0NH55953DH663215D".into()),
        ..VerifyConfig::default()
    }
}

fn verifier(shelf: &Arc<Shelf>) -> Verifier {
    let certificates = Certificates::with_root(Arc::clone(shelf) as _, &file("root.pem")).expect("a root");
    Verifier::new(&config(), Vec::new()).expect("a configuration").with_certificates(&certificates)
}

fn delivery() -> RawRequest {
    let headers = [
        ("paypal-transmission-id", "msg-1"),
        ("paypal-transmission-time", "2024-05-16T05:19:23Z"),
        ("paypal-transmission-sig", &file("signature.txt")),
        ("paypal-cert-url", URL),
        ("paypal-auth-algo", "SHA256withRSA"),
    ];
    let headers = headers.into_iter().map(|(name, value)| (name, value.trim())).collect();
    RawRequest { target: "/".into(), headers, body: Bytes::from(file("body.json")) }
}

fn replaced(name: &str, value: &str) -> RawRequest {
    let mut request = delivery();
    assert!(request.headers.contains(name), "{name}");
    let headers = request.headers.iter();
    request.headers =
        headers.map(|(known, sent)| (known, if known == name { value.as_bytes() } else { sent })).collect();
    request
}

#[tokio::test]
async fn a_delivery_is_verified_with_the_certificate_it_names_fetched_once() {
    let shelf = shelf(Ok("paypal.pem"));
    let verifier = verifier(&shelf);
    let unprepared = verifier.verify("POST", &delivery(), now());
    assert!(matches!(unprepared, Err(Refusal::Certificate { .. })), "{unprepared:?}");
    for _ in 0..3 {
        verifier.prepare(&delivery(), now()).await;
        assert_eq!(verifier.verify("POST", &delivery(), now()).map(|_| ()), Ok(()));
    }
    assert_eq!(shelf.asked.load(Ordering::Relaxed), 1);
    let mut changed = delivery();
    changed.body = Bytes::from(file("body.json").replace("500.00", "900.00"));
    assert!(matches!(verifier.verify("POST", &changed, now()), Err(Refusal::NoMatch { .. })));
    for (name, value) in [
        ("paypal-transmission-id", "msg-2"),
        ("paypal-transmission-time", "2024-05-16T05:19:24Z"),
        ("paypal-transmission-time", "yesterday"),
        ("paypal-auth-algo", "SHA1withRSA"),
        ("paypal-transmission-sig", "AAAA"),
        ("paypal-transmission-sig", "*"),
    ] {
        assert!(verifier.verify("POST", &replaced(name, value), now()).is_err(), "{name}: {value}");
    }
}

#[tokio::test]
async fn a_url_that_does_not_lead_to_paypal_is_never_followed() {
    let shelf = shelf(Ok("paypal.pem"));
    let verifier = verifier(&shelf);
    for url in [
        "https://api.paypal.com.attacker.example/v1/notifications/certs/CERT-1",
        "https://attacker.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com@attacker.example/v1/notifications/certs/CERT-1",
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../../x",
        "https://api.paypal.com/v1/notifications/certs/CERT-1?x=https://attacker.example",
        "https://api.paypal.com/v1/notifications/certs/",
        "HTTPS://API.PAYPAL.COM/v1/notifications/certs/CERT-1",
    ] {
        let request = replaced("paypal-cert-url", url);
        verifier.prepare(&request, now()).await;
        let refusal = verifier.verify("POST", &request, now()).unwrap_err();
        assert!(matches!(refusal, Refusal::Certificate { .. }), "{url}: {refusal}");
    }
    assert_eq!(shelf.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_certificate_counts_only_with_the_right_name_time_and_root() {
    let stranger = shelf(Ok("stranger.pem"));
    let wrong_name = verifier(&stranger);
    wrong_name.prepare(&delivery(), now()).await;
    assert!(wrong_name.verify("POST", &delivery(), now()).is_err());

    let before = DateTime::from_timestamp_secs(1_700_000_000).expect("before it was made");
    let early = verifier(&shelf(Ok("paypal.pem")));
    early.prepare(&delivery(), before).await;
    assert!(early.verify("POST", &delivery(), before).is_err());

    // The roots that browsers trust do not vouch for a root made here.
    let pinned =
        VerifyConfig { certificate: Some(SecretRef::Literal(Secret::new(file("paypal.pem")))), ..config() };
    let bundled = Verifier::new(&pinned, Vec::new()).expect("a configuration");
    let refusal = bundled.verify("POST", &delivery(), now()).unwrap_err();
    assert_eq!(refusal.to_string(), "the certificate has no chain to a trusted root");
}

#[tokio::test]
async fn a_fetch_that_fails_is_not_tried_again_at_once() {
    let empty = shelf(Err(()));
    let verifier = verifier(&empty);
    for _ in 0..5 {
        verifier.prepare(&delivery(), now()).await;
    }
    assert_eq!(empty.asked.load(Ordering::Relaxed), 1);
    verifier.prepare(&delivery(), now() + chrono::TimeDelta::seconds(31)).await;
    assert_eq!(empty.asked.load(Ordering::Relaxed), 2);
}

#[test]
fn a_delivery_can_be_made_with_the_private_key() {
    let nothing = shelf(Err(()));
    let pinned =
        VerifyConfig { certificate: Some(SecretRef::Literal(Secret::new(file("paypal.pem")))), ..config() };
    let certificates = Certificates::with_root(nothing as _, &file("root.pem")).expect("a root");
    let build = |key: &str| {
        let verifier = Verifier::new(&pinned, vec![Secret::new(file(key))]).expect("a configuration");
        verifier.with_certificates(&certificates)
    };
    for (key, is_theirs) in [("paypal.key.pem", true), ("stranger.key.pem", false)] {
        let verifier = build(key);
        let headers = verifier.sign("POST", "/", b"{}", "msg-9", now()).expect("signs");
        let headers = headers.into_iter().collect();
        let request = RawRequest { target: "/".into(), headers, body: Bytes::from_static(b"{}") };
        assert_eq!(verifier.verify("POST", &request, now()).is_ok(), is_theirs, "{key}");
    }
}
