//! What verification costs beyond the HMAC itself, for a body of 2 kB and every sender that signs
//! with an HMAC.
//!
//! `cargo bench --bench verify`: the difference between a scheme and the bare HMAC over the same hash
//! is ours; the goal is at most 5 µs.

use bytes::Bytes;
use chrono::DateTime;
use criterion::{Criterion, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hooklatch::event::RawRequest;
use hooklatch::raw_headers::RawHeaders;
use hooklatch::secret::Secret;
use hooklatch::signature::{Preset, Verifier, VerifyConfig, generate};

const BODY_BYTES: usize = 2048;
const TARGET: &str = "/hooks/x";
const NOW_MILLISECONDS: i64 = 1_700_000_000_000;

/// The HMAC alone, as every scheme must make and compare it.
macro_rules! bare {
    ($group:expr, $hash:ty, $name:literal) => {
        let body = body("");
        let keyed = Hmac::<$hash>::new_from_slice(&[7; 32]).expect("HMAC takes keys of any length");
        let sent = keyed.clone().chain_update(&body).finalize().into_bytes();
        $group.bench_function($name, |bencher| {
            bencher.iter(|| keyed.clone().chain_update(&body).verify_slice(&sent).is_ok());
        });
    };
}

fn verification(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("2 kB");
    bare!(group, sha1::Sha1, "bare HMAC-SHA1");
    bare!(group, sha2::Sha256, "bare HMAC-SHA256");
    bare!(group, sha2::Sha512, "bare HMAC-SHA512");
    let now = DateTime::from_timestamp_millis(NOW_MILLISECONDS).expect("a time in 2023");
    for preset in Preset::all().filter(|preset| preset.way_in_words().starts_with("HMAC")) {
        let url = preset.needs_url().then(|| "https://hooks.example.com/hooks/x".to_owned());
        let config = VerifyConfig { scheme: preset.scheme.to_owned(), url, ..VerifyConfig::default() };
        let secret = generate(preset.scheme, false).expect("a secret for every scheme").secret;
        let verifier =
            Verifier::new(&config, vec![Secret::new(secret.expose())]).expect("a valid configuration");
        let signed =
            verifier.sign_request("POST", TARGET, &body(preset.scheme), "msg_1", now).expect("signs");
        let mut headers: RawHeaders =
            (0..10).map(|n| (format!("x-other-{n}"), "of a usual length")).collect();
        headers.extend(signed.headers);
        let request = RawRequest { target: signed.target.into(), headers, body: Bytes::from(signed.body) };
        verifier.verify("POST", &request, now).expect("what is measured is an acceptance");
        group
            .bench_function(preset.scheme, |bencher| bencher.iter(|| verifier.verify("POST", &request, now)));
    }
    group.finish();
}

/// About 2 kB, as the sender could send it.
fn body(scheme: &str) -> Vec<u8> {
    let (before, after) = match scheme {
        "adyen" => (
            r#"{"notificationItems":[{"NotificationRequestItem":{"pspReference":"p","eventCode":"CAPTURE","success":"true","amount":{"value":1,"currency":"EUR"},"reason":""#.to_owned(),
            r#""}}]}"#,
        ),
        "twilio" => ("From=%2B15551234567&To=%2B15557654321&Body=".to_owned(), "&NumMedia=0"),
        _ => (format!(r#"{{"id":"evt_1","webhookTimestamp":{NOW_MILLISECONDS},"text":""#), r#""}"#),
    };
    let filling = "x".repeat(BODY_BYTES - before.len() - after.len());
    format!("{before}{filling}{after}").into_bytes()
}

criterion_group!(benches, verification);
criterion_main!(benches);
