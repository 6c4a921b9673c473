//! Headers that are wrong in the ways seen in the wild: each refused, none by a panic.

use bytes::Bytes;
use hooklatch::event::RawRequest;
use hooklatch::raw_headers::RawHeaders;
use hooklatch::secret::Secret;
use hooklatch::signature::{Preset, Verifier, VerifyConfig, generate};
use proptest::prelude::*;

use super::now;

fn verifier(scheme: &str, secret: &str) -> Verifier {
    let preset = Preset::find(scheme).expect("a preset");
    let url = preset.needs_url().then(|| "https://hooks.example/x".to_owned());
    let config = VerifyConfig { scheme: scheme.to_owned(), url, ..VerifyConfig::default() };
    Verifier::new(&config, vec![Secret::new(secret)]).expect("a valid configuration")
}

fn stripe(header: &str) -> bool {
    let request = RawRequest {
        target: "/".into(),
        headers: RawHeaders::from_iter([("stripe-signature", header)]),
        body: Bytes::from_static(br#"{"id":"evt_1","object":"event"}"#),
    };
    verifier("stripe", "whsec_test_secret").verify("POST", &request, now()).is_ok()
}

#[test]
fn stripe_headers_are_read_as_its_library_reads_them() {
    let good = "0c8670ed117751cc551a20e35839447075c42800ea3cf3e8a2fbda99cd1e6edd";
    let zeros = "0".repeat(64);
    for accepted in [
        format!("t=1700000000,v1={good}"),
        format!("v1={good},t=1700000000"),
        format!("t=1700000000,v1={good},v1={zeros}"),
        format!("t=1700000000,v1={zeros},v1={good}"),
        format!("t=1700000000,v1={zeros},v1={good},v0=x"),
        format!("t=1700000000,v1={good},v1=bad_signature"),
        format!("t=1700000000,v1={}", good.to_uppercase()),
    ] {
        assert!(stripe(&accepted), "{accepted}");
    }
    for refused in [
        String::new(),
        "v1,t=1".into(),
        "t=".into(),
        "t=1700000000".into(),
        format!("t=,v1={good}"),
        format!("t=x,v1={good}"),
        format!("t=1700000000,v0={good}"),
        format!("t=1700000000,v2={good}"),
        "t=1700000000,v1=deadbeef".into(),
        format!("t=1700000000,v1={zeros},v1={zeros}"),
        format!("t=1700000001,v1={good}"),
        format!("t=1700000000,v1={good},"),
        format!("t=1700000000,v1={good},t=1700000000"),
    ] {
        assert!(!stripe(&refused), "{refused}");
    }
}

#[test]
fn every_scheme_survives_every_malformed_header() {
    for preset in Preset::all().filter(|preset| preset.scheme != "paypal") {
        let generated = generate(preset.scheme, false).expect("a secret");
        let secret = generated.public.as_deref().unwrap_or(generated.secret.expose());
        let verifier = verifier(preset.scheme, secret);
        let signer = self::verifier(preset.scheme, generated.secret.expose());
        let body: &[u8] = br#"{"webhookTimestamp":1700000000000,"notificationItems":[]}"#;
        let signed = signer.sign_request("POST", "/x", body, "m", now()).expect("signs");
        let base = RawRequest {
            target: signed.target.as_str().into(),
            headers: signed.headers.iter().cloned().collect(),
            body: Bytes::from(signed.body),
        };
        for (index, (name, value)) in signed.headers.iter().enumerate() {
            if name == "content-type" {
                continue;
            }
            let others = |left_out: usize| {
                let headers = signed.headers.iter().enumerate();
                headers.filter(move |(at, _)| *at != left_out).map(|(_, header)| header.clone())
            };
            for value in
                [&b"sha256=\xe9\xff"[..], b"", b"sha256=", b"abc", b"=", b",", b" ", b"v1,", b"t=", b"\xff"]
            {
                let mut request = base.clone();
                request.headers = others(index).collect();
                request.headers.push(name, value);
                assert!(
                    verifier.verify("POST", &request, now()).is_err(),
                    "{} {name} {value:?}",
                    preset.scheme
                );
            }
            let mut twice = base.clone();
            twice.headers.push(name, value);
            assert!(verifier.verify("POST", &twice, now()).is_err(), "{} {name} twice", preset.scheme);
            let mut missing = base.clone();
            missing.headers = others(index).collect();
            let refusal = verifier.verify("POST", &missing, now()).unwrap_err().to_string();
            assert!(refusal.contains("is missing"), "{}: {refusal}", preset.scheme);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_bring_a_preset_down(
        preset in 0..Preset::all().count(),
        header in any::<Vec<u8>>(),
        body in any::<Vec<u8>>(),
        query in "[ -~]{0,30}",
        nearly in r#"\{"(signature|notificationItems|events|type)":(\[\]|\{"timestamp":"[0-9]{0,12}","token":"x","signature":"[0-9a-f]{0,64}"\}|\[\{"NotificationRequestItem":\{"additionalData":\{"hmacSignature":"[A-Za-z0-9+/=]{0,44}"\}\}\}\])\}"#
    ) {
        let preset = Preset::all().nth(preset).unwrap();
        prop_assume!(preset.scheme != "paypal");
        let secret = generate(preset.scheme, false).unwrap();
        let verifier = verifier(preset.scheme, secret.public.as_deref().unwrap_or(secret.secret.expose()));
        let names = verifier.explain("POST", &RawRequest {
            target: "/".into(), headers: RawHeaders::new(), body: Bytes::new(),
        }, None, now());
        let headers: RawHeaders = names.steps.iter()
            .filter_map(|step| step.text.strip_prefix("header `")?.split('`').next())
            .map(|name| (name, &header))
            .collect();
        for body in [body, nearly.into_bytes()] {
            let request = RawRequest {
                target: format!("/x?{query}").as_str().into(), headers: headers.clone(), body: Bytes::from(body),
            };
            prop_assert!(verifier.verify("POST", &request, now()).is_err());
            let _whatever = verifier.handshake("POST", &request, now());
            let _whatever = verifier.handshake("GET", &request, now());
        }
    }
}
