//! What holds for every request: the reference library agrees, one changed bit is refused, and no
//! header brings the verifier down.

mod bad_headers;
mod documentation;
mod handshakes;
mod paypal;
mod round_trips;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use hooklatch::clock::Clock;
use hooklatch::event::RawRequest;
use hooklatch::secret::Secret;
use hooklatch::signature::{Verifier, VerifyConfig};
use proptest::prelude::*;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::Webhook;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// One of each kind of header: alone, list, fields.
const CONFIGS: [&str; 4] = [
    r#"scheme = "standard-webhooks""#,
    r#"scheme = "hmac"
       header = "x-sig"
       prefix = "sha256=""#,
    r#"scheme = "hmac"
       header = "x-sig"
       separator = ";"
       signature_field = "v1"
       timestamp_field = "t"
       hash = "sha512"
       encoding = "base64"
       signed = "{timestamp}.{body}""#,
    r#"scheme = "hmac"
       header = "x-sig"
       separator = ","
       hash = "sha1"
       id_header = "x-id"
       timestamp_header = "x-at"
       timestamp_unit = "rfc3339"
       url = "https://hooks.example/a"
       signed = "{id}{method}{url}{timestamp}{body}""#,
];

fn verifier(config: &str) -> Verifier {
    let config: VerifyConfig = toml::from_str(config).expect("a configuration above is valid");
    Verifier::new(&config, vec![Secret::new(SECRET)]).expect("a configuration above is valid")
}

fn request(headers: &[(String, String)], body: &[u8]) -> RawRequest {
    RawRequest {
        target: "/hooks/a?x=1".into(),
        headers: headers.iter().cloned().collect(),
        body: Bytes::copy_from_slice(body),
    }
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_secs(1_700_000_000).expect("a time in 2023")
}

fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let parsed = headers.iter().map(|(name, value)| {
        let name = HeaderName::try_from(name.as_str()).expect("we sign with valid names");
        (name, HeaderValue::try_from(value.as_str()).expect("we sign with valid values"))
    });
    parsed.collect()
}

proptest! {
    // The reference library reads the real clock, so these two do too.
    #[test]
    fn the_reference_library_accepts_what_we_sign(id in "[!-~]{1,40}", body: String) {
        let headers = verifier(CONFIGS[0])
            .sign("POST", "/", body.as_bytes(), &id, Clock::system().now())
            .unwrap();
        prop_assert!(Webhook::new(SECRET).unwrap().verify(body.as_bytes(), &header_map(&headers)).is_ok());
    }

    #[test]
    fn we_accept_what_the_reference_library_signs(id in "[!-~]{1,40}", body: String, skew in -299_i64..299) {
        let now = Clock::system().now();
        let timestamp = now.timestamp() + skew;
        let signature = Webhook::new(SECRET).unwrap().sign(&id, timestamp, body.as_bytes()).unwrap();
        let headers = [
            ("webhook-id".to_owned(), id),
            ("webhook-timestamp".to_owned(), timestamp.to_string()),
            ("webhook-signature".to_owned(), signature),
        ];
        let outcome = verifier(CONFIGS[0]).verify("POST", &request(&headers, body.as_bytes()), now);
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
    }

    #[test]
    fn what_is_signed_is_verified_and_any_changed_bit_is_refused(
        config in 0..CONFIGS.len(), body: Vec<u8>, at: proptest::sample::Index, bit in 0..8_u32
    ) {
        let verifier = verifier(CONFIGS[config]);
        let headers = verifier.sign("POST", "/hooks/a?x=1", &body, "msg_1", now()).unwrap();
        let genuine = request(&headers, &body);
        prop_assert!(verifier.verify("POST", &genuine, now()).is_ok());

        let total = body.len() + headers.iter().map(|(_, value)| value.len()).sum::<usize>();
        let mut at = at.index(total);
        let mut values: Vec<_> = genuine.headers.iter().map(|(_, value)| value.to_vec()).collect();
        values.push(body);
        for part in &mut values {
            if at >= part.len() {
                at -= part.len();
                continue;
            }
            let before = part[at];
            part[at] ^= 1 << bit;
            // Upper and lower case hex are the same signature.
            prop_assume!(!(before.is_ascii_hexdigit() && part[at].eq_ignore_ascii_case(&before)));
            break;
        }
        let body = Bytes::from(values.pop().expect("the body"));
        let names = headers.iter().map(|(name, _)| name);
        let changed = RawRequest { headers: names.zip(values).collect(), body, ..genuine };
        prop_assert!(verifier.verify("POST", &changed, now()).is_err());
    }

    #[test]
    fn any_header_bytes_are_refused_and_never_bring_us_down(
        config in 0..CONFIGS.len(), values in proptest::collection::vec(any::<Vec<u8>>(), 6), body: Vec<u8>
    ) {
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature", "x-sig", "x-id", "x-at"];
        let headers = names.into_iter().zip(values);
        let request = RawRequest { target: "?".into(), headers: headers.collect(), body: Bytes::from(body) };
        prop_assert!(verifier(CONFIGS[config]).verify("POST", &request, now()).is_err());
    }

    #[test]
    fn nearly_right_headers_are_refused_and_never_bring_us_down(
        config in 0..CONFIGS.len(),
        signature in r"((v1[,=]|sha256=|t=|)([0-9a-fA-F]{0,66}|[0-9A-Za-z+/]{43}=|1700000000)[;, ]?){0,20}",
        timestamp in r"[0-9+. Ttz:-]{0,22}|1700000000|2023-11-14T22:13:20Z"
    ) {
        let headers = [
            ("webhook-id", "msg_1"), ("webhook-timestamp", &timestamp), ("webhook-signature", &signature),
            ("x-sig", &signature), ("x-id", "1"), ("x-at", &timestamp),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = request(&headers, b"{}");
        prop_assert!(verifier(CONFIGS[config]).verify("POST", &request, now()).is_err());
    }
}
