//! What verification costs beyond the HMAC itself, for a body of 2 kB.
//!
//! `cargo bench --bench verify`: the difference between a scheme and `bare hmac` is ours; the goal is
//! at most 5 µs.

use bytes::Bytes;
use chrono::DateTime;
use criterion::{Criterion, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hooklatch::event::RawRequest;
use hooklatch::secret::Secret;
use hooklatch::signature::{Verifier, VerifyConfig};
use sha2::Sha256;

const BODY_BYTES: usize = 2048;
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn verification(criterion: &mut Criterion) {
    let body = vec![b'x'; BODY_BYTES];
    let mut group = criterion.benchmark_group("2 kB");
    let keyed = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("HMAC takes keys of any length");
    let sent = keyed.clone().chain_update(&body).finalize().into_bytes();
    group.bench_function("bare hmac", |bencher| {
        bencher.iter(|| keyed.clone().chain_update(&body).verify_slice(&sent).is_ok());
    });
    let now = DateTime::from_timestamp_secs(1_700_000_000).expect("a time in 2023");
    for scheme in ["github", "stripe", "slack", "standard-webhooks", "shopify"] {
        let config = VerifyConfig { scheme: scheme.to_owned(), ..VerifyConfig::default() };
        let verifier = Verifier::new(&config, vec![Secret::new(SECRET)]).expect("a valid configuration");
        let signed = verifier.sign("POST", "/hooks/x", &body, "msg_1", now).expect("signs");
        let mut headers: Vec<_> =
            (0..10).map(|n| (format!("x-other-{n}"), Bytes::from_static(b"of a usual length"))).collect();
        headers.extend(signed.into_iter().map(|(name, value)| (name, Bytes::from(value))));
        let request = RawRequest { target: "/hooks/x".into(), headers, body: Bytes::from(body.clone()) };
        group.bench_function(scheme, |bencher| bencher.iter(|| verifier.verify("POST", &request, now)));
    }
    group.finish();
}

criterion_group!(benches, verification);
criterion_main!(benches);
