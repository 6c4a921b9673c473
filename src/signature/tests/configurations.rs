//! Configurations that are wrong in one way each, and what is made of those that are not.

use std::time::Duration;

use super::*;

#[test]
fn no_scheme_accepts_everything_only_when_written_out() {
    let verifier = build("scheme = \"none\"", &[]).unwrap();
    assert_eq!(check(&verifier, &[]), Ok(Verified { secret_index: None, timestamp: None }));
    assert_eq!(verifier.sign("POST", "/", b"", "", at(NOW)), Ok(Vec::new()));
    assert!(build("secrets = []", &[]).unwrap_err().to_string().contains("`scheme` is missing"));
    let any = "any_of = [{ scheme = \"none\" }]";
    assert!(build(any, &[]).unwrap_err().to_string().contains("accepts everything"));
    assert_eq!(build("scheme = \"none\"", &["s"]).unwrap_err(), VerifyConfigError::SecretsWithoutScheme);
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_with_the_way_out() {
    let hmac = |knobs: &str| format!("scheme = \"hmac\"\nheader = \"x-sig\"\n{knobs}");
    let unknown = |scheme: &str| format!("scheme = \"{scheme}\"");
    for (config, secret, says) in [
        (unknown("standard_webhook"), "s", "did you mean `standard-webhooks`?"),
        (unknown("HMAC-SHA256"), "s", "did you mean `hmac`?"),
        (unknown(""), "s", "`scheme` is missing"),
        (unknown("zzz"), "s", "there are none, hmac, public-key"),
        (unknown("hmac"), "s", "`header` is missing"),
        (hmac(""), "", "secret 1 is empty"),
        (hmac(""), " s", "white space"),
        (hmac("secret_encoding = \"base64\""), "not base64!", "is not base64"),
        (hmac("secret_encoding = \"hex\""), "abc", "is not hex"),
        (hmac("signed = \"{timestamp}\""), "s", "no {body}"),
        (hmac("signed = \"{timestamp}.{body}\""), "s", "`timestamp_header` is missing"),
        (hmac("signed = \"{id}.{body}\""), "s", "`id_header` is missing"),
        (hmac("signed = \"{url}{body}\""), "s", "`url` is missing"),
        (hmac("timestamp_header = \"x-at\""), "s", "leaves the timestamp out"),
        (hmac("tolerance = \"5m\""), "s", "no meaning without a timestamp"),
        (hmac("timestamp_header = \"x-at\"\ntimestamp_field = \"t\""), "s", "one place"),
        (
            hmac("timestamp_field = \"t\"\nsigned = \"{timestamp}{body}\""),
            "s",
            "`signature_field` is missing",
        ),
        (hmac("separator = \"=\""), "s", "may stand inside a signature"),
        (hmac("separator = \", \""), "s", "not one character"),
        (hmac("separator = \",\"\nprefix = \"v1,\""), "s", "`prefix` contains the separator"),
        (hmac("signed = \"{url}{body}\"\nurl = \"https://a/?b\""), "s", "has a query"),
        (STANDARD.into(), "whsec_", "nothing after its prefix"),
        (STANDARD.into(), "", "is empty"),
        (STANDARD.into(), "whsec_***", "is not base64"),
        (
            hmac("secret_encoding = \"base64\""),
            "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
            "public-key",
        ),
        (format!("{STANDARD}\ntolerance = \"0s\""), SW_SECRET, "between 1s and 7d"),
        (format!("{STANDARD}\nheader = \"x\""), SW_SECRET, "`header` has no meaning"),
        ("scheme = \"none\"\ntolerance = \"5m\"".into(), "s", "`tolerance` has no meaning"),
    ] {
        let error = build(&config, &[secret]).unwrap_err().to_string();
        assert!(error.contains(says), "{config}: {error}");
        assert!(secret.len() < 3 || !error.contains(secret), "{error} shows the secret");
    }
    assert_eq!(build(GITHUB, &[]).unwrap_err(), VerifyConfigError::NoSecret { scheme: "hmac" });
    let many = vec!["s"; MAX_SECRETS + 1];
    assert!(matches!(build(GITHUB, &many), Err(VerifyConfigError::TooManySecrets { .. })));
    for (config, says) in [
        ("scheme = \"hmac\"\nhash = \"md5\"", "sha256"),
        ("scheme = \"hmac\"\nhaeder = \"x\"", "haeder"),
        ("scheme = \"hmac\"\ntolerance = \"5\"", "number with a unit"),
    ] {
        let error = toml::from_str::<VerifyConfig>(config).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_tolerance_can_be_set_and_counts_both_ways_unless_the_future_has_its_own() {
    let verifier = build(&format!("{STANDARD}\ntolerance = \"10s\""), &[SW_SECRET]).unwrap();
    assert_eq!(verifier.replay_window(), Some(Duration::from_secs(20)));
    let config = format!("{STRIPE}\ntolerance = \"10s\"\ntolerance_future = \"1s\"");
    let verifier = build(&config, &["s"]).unwrap();
    assert_eq!(verifier.replay_window(), Some(Duration::from_secs(11)));
    assert_eq!(build(GITHUB, &["s"]).unwrap().replay_window(), None);
}

#[test]
fn presets_take_only_what_their_senders_leave_open() {
    for (config, says) in [
        ("scheme = \"square\"", "`url` is missing"),
        ("scheme = \"twilio\"", "`url` is missing"),
        ("scheme = \"twilio\"\nurl = \"a\"", "is no address"),
        ("scheme = \"github\"\nurl = \"https://a\"", "`url` has no meaning"),
        ("scheme = \"github\"\ntolerance = \"5m\"", "`tolerance` has no meaning"),
        ("scheme = \"stripe\"\nhandshake_token = \"x\"", "`handshake_token` has no meaning"),
        ("scheme = \"paypal\"", "`webhook_id` is missing"),
        ("scheme = \"public-key\"\nheader = \"x\"", "`algorithm` is missing"),
        ("scheme = \"hash\"\nheader = \"x\"", "no {secret}"),
        ("scheme = \"hmac\"\nheader = \"x\"\nsigned = \"{secret}{body}\"", "only scheme"),
        ("scheme = \"github\"\ntrusted_proxies = [\"::1\"]", "without allow_ips"),
        ("scheme = \"github\"\nallow_ips = [\"x\"]", "is no network"),
    ] {
        let error = build(config, &["s"]).unwrap_err().to_string();
        assert!(error.contains(says), "{config}: {error}");
    }
    for (scheme, secret) in
        [("adyen", "zz"), ("discord", "zz"), ("sendgrid", "zz"), ("standard-webhooks", "whpk_AA==")]
    {
        let error = build(&format!("scheme = \"{scheme}\""), &[secret]).unwrap_err();
        assert!(matches!(error, VerifyConfigError::BadSecret { number: 1, .. }), "{scheme}: {error}");
    }
}

#[test]
fn every_preset_names_places_that_can_be_read() {
    for preset in Preset::all() {
        let rules = preset.envelope.rules();
        assert_eq!(rules.check(), Ok(()), "{}", preset.scheme);
        assert_eq!(Preset::all().filter(|other| other.scheme == preset.scheme).count(), 1);
    }
}
