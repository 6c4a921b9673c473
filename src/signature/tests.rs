//! Headers that are wrong in one way each.

mod configurations;

use std::time::Duration;

use bytes::Bytes;

use super::*;

const NOW: i64 = 1_700_000_000;
const SW_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const GITHUB: &str = "scheme = \"hmac\"\nheader = \"X-Hub-Signature-256\"\nprefix = \"sha256=\"";
const STRIPE: &str = "scheme = \"hmac\"\nheader = \"Stripe-Signature\"\nsignature_field = \"v1\"\n\
                      timestamp_field = \"t\"\nsigned = \"{timestamp}.{body}\"";
const STANDARD: &str = "scheme = \"standard-webhooks\"";

fn build(config: &str, secrets: &[&str]) -> Result<Verifier, VerifyConfigError> {
    let config: VerifyConfig = toml::from_str(config).unwrap();
    Verifier::new(&config, secrets.iter().copied().map(Secret::new).collect())
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_secs(seconds).unwrap()
}

fn request(headers: &[(&str, &[u8])], body: &[u8]) -> RawRequest {
    RawRequest {
        target: "/hooks/shop".into(),
        headers: headers.iter().copied().collect(),
        body: Bytes::copy_from_slice(body),
    }
}

fn check(verifier: &Verifier, headers: &[(&str, &[u8])]) -> Result<Verified, Refusal> {
    verifier.verify("POST", &request(headers, b"{}"), at(NOW))
}

/// What a sender would put into `header`.
fn signed(verifier: &Verifier, header: &str, when: i64) -> String {
    let headers = verifier.sign("POST", "/hooks/shop", b"{}", "msg_1", at(when)).unwrap();
    headers.into_iter().find(|(name, _)| name == header).unwrap().1
}

const HUB: &str = "x-hub-signature-256";

#[test]
fn a_malformed_signature_is_refused_and_says_how() {
    let verifier = build(GITHUB, &["s"]).unwrap();
    let good = signed(&verifier, HUB, NOW);
    assert!(check(&verifier, &[(HUB, good.as_bytes())]).is_ok());
    let not_hex = format!("sha256={}", "z".repeat(64));
    let long = format!("{good}1");
    let upper_prefix = good.replace("sha256", "SHA256");
    for (value, says) in [
        (&b""[..], "is empty"),
        (b"sha256=", "wrong length"),
        (b"sha256=abc", "wrong length"),
        (b"abc", "no signature of the configured kind"),
        (b"sha256=\xe9\xff", "not printable ASCII"),
        (b"sha256=\xc3\xa9", "not printable ASCII"),
        (not_hex.as_bytes(), "not hex"),
        (long.as_bytes(), "wrong length"),
        (upper_prefix.as_bytes(), "no signature of the configured kind"),
        (format!(" {good}").as_bytes(), "no signature of the configured kind"),
        (format!("{good},{good}").as_bytes(), "wrong length"),
    ] {
        let refusal = check(&verifier, &[(HUB, value)]).unwrap_err();
        assert!(matches!(refusal, Refusal::MalformedHeader { .. }), "{refusal}");
        assert!(refusal.to_string().contains(says), "{value:?}: {refusal}");
    }
}

#[test]
fn a_missing_or_repeated_header_is_refused_by_name() {
    let verifier = build(STANDARD, &[SW_SECRET]).unwrap();
    let signature = signed(&verifier, "webhook-signature", NOW);
    let all = [
        ("webhook-id", &b"msg_1"[..]),
        ("webhook-timestamp", b"1700000000"),
        ("webhook-signature", signature.as_bytes()),
    ];
    assert_eq!(check(&verifier, &all), Ok(Verified { secret_index: Some(0), timestamp: Some(at(NOW)) }));
    for (index, (name, value)) in all.into_iter().enumerate() {
        let mut missing = all.to_vec();
        missing.remove(index);
        let header = name.to_owned();
        assert_eq!(check(&verifier, &missing), Err(Refusal::MissingHeader { header: header.clone() }));
        let mut twice = all.to_vec();
        twice.push((name, value));
        assert_eq!(check(&verifier, &twice), Err(Refusal::RepeatedHeader { header }));
        let mut empty = all.to_vec();
        empty[index].1 = b"";
        assert!(check(&verifier, &empty).is_err());
    }
    assert_eq!(check(&verifier, &[]).unwrap_err().to_string(), "header `webhook-signature` is missing");
}

#[test]
fn standard_webhooks_lists_and_versions_follow_the_specification() {
    let verifier = build(STANDARD, &[SW_SECRET]).unwrap();
    let good = signed(&verifier, "webhook-signature", NOW);
    let zeros = format!("v1,{}=", "A".repeat(43));
    let with = |signature: &str| {
        check(
            &verifier,
            &[
                ("webhook-id", b"msg_1"),
                ("webhook-timestamp", b"1700000000"),
                ("webhook-signature", signature.as_bytes()),
            ],
        )
    };
    for accepted in [
        format!("{zeros} {good}"),
        format!("{good} {zeros}"),
        format!("v1a,x v2,y v1, {good}"),
        format!("  {good}"),
    ] {
        assert!(with(&accepted).is_ok(), "{accepted}");
    }
    let truncated = good.trim_end_matches('=');
    let unversioned = good.trim_start_matches("v1,");
    for refused in [
        &zeros,
        &format!("{zeros} {zeros}"),
        truncated,
        unversioned,
        &good.replace("v1,", "v2,"),
        &good.replace("v1,", "v1a,"),
        &good.replace("v1,", "v1 "),
        "v1,",
        "v1",
        " ",
    ] {
        assert!(with(refused).is_err(), "{refused}");
    }
    let sixteen = format!("{}{good}", format!("{zeros} ").repeat(MAX_SIGNATURES - 1));
    assert!(with(&sixteen).is_ok());
    let seventeen = format!("{zeros} {sixteen}");
    assert!(matches!(with(&seventeen), Err(Refusal::TooManySignatures { .. })));
}

#[test]
fn standard_webhooks_accepts_five_minutes_both_ways_and_not_a_second_more() {
    let verifier = build(STANDARD, &[SW_SECRET]).unwrap();
    let signed_at = |when: i64| {
        let headers = verifier.sign("POST", "/hooks/shop", b"{}", "msg_1", at(when)).unwrap();
        let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        check(&verifier, &headers)
    };
    for accepted in [NOW - 300, NOW - 299, NOW, NOW + 299, NOW + 300] {
        assert!(signed_at(accepted).is_ok(), "{accepted}");
    }
    assert!(matches!(signed_at(NOW - 301), Err(Refusal::TooOld { age_seconds: 301, .. })));
    assert!(matches!(signed_at(NOW + 301), Err(Refusal::InFuture { ahead_seconds: 301, .. })));
    assert!(matches!(signed_at(NOW + 31_536_000), Err(Refusal::InFuture { .. })));
    assert!(matches!(signed_at(0), Err(Refusal::TooOld { .. })));
    assert_eq!(verifier.replay_window(), Some(Duration::from_mins(10)));
}

#[test]
fn a_timestamp_that_is_no_number_is_refused() {
    let verifier = build(STANDARD, &[SW_SECRET]).unwrap();
    let signature = signed(&verifier, "webhook-signature", NOW);
    for timestamp in [
        "+1700000000",
        " 1700000000",
        "1700000000.0",
        "17e8",
        "-1",
        "99999999999999999999",
        "x",
        "",
        "\u{661}",
    ] {
        let headers = [
            ("webhook-id", &b"msg_1"[..]),
            ("webhook-timestamp", timestamp.as_bytes()),
            ("webhook-signature", signature.as_bytes()),
        ];
        let refusal = check(&verifier, &headers).unwrap_err();
        assert!(
            matches!(&refusal, Refusal::MalformedHeader { header, .. } if header == "webhook-timestamp"),
            "{refusal}"
        );
    }
}

#[test]
fn fields_in_a_header_are_read_strictly_and_any_signature_may_match() {
    let verifier = build(STRIPE, &["whsec_test_secret"]).unwrap();
    let good = signed(&verifier, "stripe-signature", NOW);
    let (time, v1) = good.split_once(',').unwrap();
    let zeros = format!("v1={}", "0".repeat(64));
    let with = |header: &str| check(&verifier, &[("stripe-signature", header.as_bytes())]);
    for accepted in [
        good.clone(),
        format!("{time},{v1},{zeros}"),
        format!("{time},{zeros},{v1}"),
        format!("{time}, {zeros}, {v1}, v0=x"),
        format!("{v1},{time}"),
        format!("{good},v1=bad_signature"),
    ] {
        assert!(with(&accepted).is_ok(), "{accepted}");
    }
    for refused in [
        format!("{time},{zeros},{zeros}"),
        format!("{time},v0{}", &v1[2..]),
        format!("v1,{time}"),
        format!("t=,{v1}"),
        format!("t= {NOW},{v1}"),
        format!("{time},{v1},"),
        format!("{time},{v1},x"),
        time.to_owned(),
        v1.to_owned(),
    ] {
        assert!(with(&refused).is_err(), "{refused}");
    }
    assert!(matches!(with(v1), Err(Refusal::MissingField { .. })));
    assert!(matches!(with(&format!("{good},{time}")), Err(Refusal::RepeatedField { .. })));
}

#[test]
fn any_of_several_secrets_may_have_signed() {
    let both = build(GITHUB, &["new", "old"]).unwrap();
    for (index, secret) in ["new", "old"].into_iter().enumerate() {
        let signature = signed(&build(GITHUB, &[secret]).unwrap(), HUB, NOW);
        let verified = check(&both, &[(HUB, signature.as_bytes())]).unwrap();
        assert_eq!(verified.secret_index, Some(index));
    }
    let signature = signed(&build(GITHUB, &["other"]).unwrap(), HUB, NOW);
    let refusal = check(&both, &[(HUB, signature.as_bytes())]).unwrap_err();
    assert_eq!(refusal, Refusal::NoMatch { secrets: 2, signatures: 1 });
}

#[test]
fn what_cannot_be_signed_says_why() {
    let verifier = build(STANDARD, &[SW_SECRET]).unwrap();
    for id in ["", "a b", "a\nb", "é"] {
        assert_eq!(verifier.sign("POST", "/", b"", id, at(NOW)), Err(SignError::BadId), "{id:?}");
    }
    let config = "scheme = \"hmac\"\nheader = \"x-sig\"\nsigned = \"{header:X-Other}{body}\"";
    let verifier = build(config, &["s"]).unwrap();
    assert_eq!(
        verifier.sign("POST", "/", b"", "1", at(NOW)),
        Err(SignError::NeedsHeader { header: "x-other".into() })
    );
}

#[test]
fn nothing_secret_is_shown() {
    let verifier = build(GITHUB, &["very secret"]).unwrap();
    assert_eq!(format!("{verifier:?}"), "Verifier(hmac)");
    let signature = signed(&build(GITHUB, &["other"]).unwrap(), HUB, NOW);
    let refusal = check(&verifier, &[(HUB, signature.as_bytes())]).unwrap_err();
    let shown = format!("{refusal} {refusal:?}");
    assert!(!shown.contains("very secret") && !shown.contains(&signature[7..]));
}

/// A verifier whose secrets stand in the configuration.
fn configured(config: &str) -> Result<Verifier, VerifyConfigError> {
    let config: VerifyConfig = toml::from_str(config).unwrap();
    Verifier::configured(&config, &mut |reference| match reference {
        crate::config::SecretRef::Literal(secret) => Some(secret.clone()),
        _ => None,
    })
}

#[test]
fn a_secret_that_has_ended_is_named_and_refused_and_never_signs() {
    let config = format!(
        "{GITHUB}\nsecrets = [\"new\", {{ secret = \"old\", not_after = \"2023-11-14T22:13:20Z\" }}]"
    );
    let verifier = configured(&config).unwrap();
    let signature = signed(&build(GITHUB, &["old"]).unwrap(), HUB, NOW);
    let at_end = request(&[(HUB, signature.as_bytes())], b"{}");
    assert_eq!(verifier.verify("POST", &at_end, at(NOW)).unwrap().secret_index, Some(1));
    let refusal = verifier.verify("POST", &at_end, at(NOW + 1)).unwrap_err();
    assert!(
        refusal.to_string().starts_with("secret 2 signed it, but that secret ended at 2023-11-14"),
        "{refusal}"
    );
    let config =
        format!("{GITHUB}\nsecrets = [{{ secret = \"old\", not_after = \"2023-11-14T22:13:20Z\" }}]");
    let verifier = configured(&config).unwrap();
    assert_eq!(verifier.sign("POST", "/", b"", "1", at(NOW + 1)), Err(SignError::AllExpired));
}

#[test]
fn all_of_needs_every_scheme_and_any_of_one() {
    let inner = r#"[{ scheme = "github", secrets = ["s"] }, { scheme = "bearer", secrets = ["a", "b"] }]"#;
    let good = signed(&build(GITHUB, &["s"]).unwrap(), HUB, NOW);
    let both = [(HUB, good.as_bytes()), ("authorization", &b"bearer b"[..])];
    let all = configured(&format!("all_of = {inner}")).unwrap();
    assert_eq!(check(&all, &both).unwrap().secret_index, Some(0));
    assert!(check(&all, &both[..1]).is_err() && check(&all, &both[1..]).is_err());
    let any = configured(&format!("any_of = {inner}")).unwrap();
    assert_eq!(check(&any, &both[..1]).unwrap().secret_index, Some(0));
    assert_eq!(check(&any, &both[1..]).unwrap().secret_index, Some(2));
    let refusal = check(&any, &[]).unwrap_err().to_string();
    assert!(refusal.contains("(1) header `x-hub-signature-256` is missing; (2) header"), "{refusal}");
    assert_eq!(any.secret_count(), 3);
    let signed = all.sign("POST", "/", b"{}", "1", at(NOW)).unwrap();
    assert_eq!(signed.len(), 2);
    for (config, says) in [
        (format!("scheme = \"github\"\nall_of = {inner}"), "stands alone"),
        (format!("any_of = {inner}\nall_of = {inner}"), "beside all_of"),
        ("any_of = [{ scheme = \"hmacs\" }]".into(), "`any_of`, number 1: unknown scheme"),
        (
            "any_of = [{ scheme = \"bearer\", secrets = [\"s\"], allow_ips = [\"::1\"] }]".into(),
            "beside them",
        ),
    ] {
        let error = configured(&config).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_credential_is_exact_and_only_its_word_may_be_in_any_case() {
    let bearer = build("scheme = \"bearer\"", &["T0ken"]).unwrap();
    let with = |value: &[u8]| check(&bearer, &[("authorization", value)]);
    for accepted in ["Bearer T0ken", "bearer T0ken", "BEARER  T0ken", "Bearer T0ken  "] {
        assert!(with(accepted.as_bytes()).is_ok(), "{accepted}");
    }
    for refused in [
        &b""[..],
        b"T0ken",
        b"Bearer",
        b"Bearer ",
        b"Bearer t0ken",
        b"Bearer T0ke",
        b"Bearer T0ken2",
        b"Basic T0ken",
        b"Bearer T0ken x",
        b"Bearer\tT0ken",
        b"Bearer \xe9",
        b"BearerT0ken",
    ] {
        assert!(with(refused).is_err(), "{refused:?}");
    }
    let twice = [("authorization", &b"Bearer T0ken"[..]), ("authorization", b"Bearer T0ken")];
    assert!(matches!(check(&bearer, &twice), Err(Refusal::RepeatedHeader { .. })));
    for (config, secret, says) in [
        ("scheme = \"basic\"", "password", "has no colon"),
        ("scheme = \"token\"", "x", "`header` is missing"),
        ("scheme = \"bearer\"\nheader = \"x\"", "x", "`header` has no meaning"),
        ("scheme = \"bearer\"", "\u{e9}", "not printable"),
    ] {
        assert!(build(config, &[secret]).unwrap_err().to_string().contains(says), "{config}");
    }
}

#[test]
fn a_test_mode_signature_alone_is_named() {
    let verifier = build("scheme = \"stripe\"", &["whsec_x"]).unwrap();
    let header = format!("t={NOW},v0={}", "0".repeat(64));
    let refusal = check(&verifier, &[("stripe-signature", header.as_bytes())]).unwrap_err();
    assert!(matches!(refusal, Refusal::TestModeOnly { field: "v0", .. }), "{refusal}");
}
