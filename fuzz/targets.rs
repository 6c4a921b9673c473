//! What is claimed of each parser, whatever it is given. A claim that does not hold panics.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use hooklatch::config::{Config, Environment};
use hooklatch::envelope::{EnvelopeRules, Locator, Locators, idempotency_key};
use hooklatch::event::{MAX_EVENT_ID_BYTES, MAX_IDEMPOTENCY_KEY_CHARS, RawRequest};
use hooklatch::json_pointer::JsonPointer;
use hooklatch::json_scan::{JsonKind, JsonStr};
use hooklatch::secret::Secret;
use hooklatch::signature::{Preset, Verifier, VerifyConfig, generate};
use hooklatch::source::KeyPolicy;
use serde_json::value::RawValue;

pub struct Target {
    /// And of its corpus.
    pub name: &'static str,
    /// Words that its parser knows.
    pub dictionary: &'static [&'static str],
    pub run: fn(&[u8]),
}

pub static ALL: [Target; 7] = [
    Target {
        name: "json_scan",
        dictionary: &[
            "\\u0041",
            "\\ud83d\\ude00",
            "\\udc00",
            "1e999",
            "-0",
            "null",
            "true",
            "{\"a\":1}",
            "[[]]",
            "\"a\":",
            "\u{feff}",
        ],
        run: json_scan,
    },
    Target {
        name: "json_pointer",
        dictionary: &["/a", "~1", "~0", "~2", "/0", "/-", "/00", "/é"],
        run: json_pointer,
    },
    Target {
        name: "locator",
        dictionary: &["body:/", "header:", " | ", "digest", "delivery", "/id", "x-id", "body:"],
        run: locator,
    },
    Target {
        name: "envelope",
        dictionary: &[
            "payload=",
            "%7B",
            "+",
            "\"id\"",
            "\"type\"",
            "notificationItems",
            "content-type",
            "application/x-www-form-urlencoded",
            "application/json",
            "\n\n",
            "idempotency-key",
        ],
        run: envelope,
    },
    Target {
        name: "headers",
        dictionary: &[
            "t=",
            "v1=",
            "v1,",
            "v1a,",
            "sha256=",
            ",",
            ";",
            "1700000000",
            "-1",
            "99999999999999999999",
            "Bearer ",
            "Basic ",
            "==",
            "\n",
        ],
        run: headers,
    },
    Target {
        name: "template",
        dictionary: &[
            "{body}",
            "{timestamp}",
            "{id}",
            "{header:x-a}",
            "{field:t}",
            "{method}",
            "{url}",
            "{json:body}",
            "{secret}",
            "{{",
            "}}",
            "{",
        ],
        run: template,
    },
    Target {
        name: "config",
        dictionary: &[
            "[[source]]",
            "name = \"a\"",
            "verify = { scheme = \"none\" }",
            "scheme = \"hmac\"",
            "[http]",
            "secrets = []",
            "\"1s\"",
            "all_of = [",
            "]",
            "}",
            "\n",
        ],
        run: config,
    },
];

const NOW_SECONDS: i64 = 1_700_000_000;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_secs(NOW_SECONDS).expect("a time in 2023")
}

/// We accept what `serde_json` reads, but for keys that are there twice and for depth; both see the same
/// strings, members and elements.
fn json_scan(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let theirs = serde_json::from_str::<&RawValue>(text);
    match (JsonStr::check(text), theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours.as_str(), theirs.get(), "the same text");
            same(ours);
        }
        (Ok(_), Err(error)) => panic!("accepted, but serde_json says: {error}"),
        (Err(fault), Ok(_)) => {
            let is_ours = ["twice", "deep"].iter().any(|reason| fault.problem.contains(reason));
            assert!(is_ours, "refused, though serde_json reads it: {fault}");
        }
        (Err(_), Err(_)) => {}
    }
}

fn same(json: JsonStr<'_>) {
    match json.kind() {
        JsonKind::Object => {
            let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json.as_str()) else {
                // A key that is no Unicode text is known to us by its bytes only.
                return;
            };
            for (key, value) in members {
                let ours = json.member(&key).expect("a member that serde_json sees");
                assert_eq!(ours.as_str(), value.get());
                same(ours);
            }
        }
        JsonKind::Array => {
            let theirs: Vec<&RawValue> = serde_json::from_str(json.as_str()).expect("an array");
            let ours: Vec<_> = json.elements().collect();
            assert_eq!(ours.len(), theirs.len());
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                assert_eq!(ours.as_str(), theirs.get());
                same(ours);
            }
        }
        JsonKind::String => {
            let theirs = serde_json::from_str::<String>(json.as_str()).ok();
            assert_eq!(json.text().map(|text| text.into_owned()), theirs);
        }
        JsonKind::Number => {
            if let Some(digits) = json.integer() {
                assert_eq!(digits, json.as_str());
            }
        }
        JsonKind::Bool | JsonKind::Null => {}
    }
}

/// A pointer in the first line finds in the rest what `serde_json` finds.
fn json_pointer(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (pointer, document) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(pointer_read) = JsonPointer::parse(pointer) else { return };
    assert_eq!(pointer_read.to_string(), pointer, "shown as it was written");
    let (Ok(json), Ok(value)) =
        (JsonStr::check(document), serde_json::from_str::<serde_json::Value>(document))
    else {
        return;
    };
    let ours = pointer_read.find(json).map(|found| found.as_str());
    let theirs = value.pointer(pointer);
    assert_eq!(ours.is_some(), theirs.is_some(), "{pointer:?}");
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        assert_eq!(serde_json::from_str::<serde_json::Value>(ours).ok().as_ref(), Some(theirs));
    }
}

/// A place that is accepted can be written down again.
fn locator(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(place) = Locator::parse(text) {
        // More than one place is as valid as one.
        let _pair = Locators::new(vec![place.clone(), place]);
    }
}

/// Rules as presets have them, and some of an operator's.
static RULES: LazyLock<Vec<EnvelopeRules>> = LazyLock::new(|| {
    let mut rules: Vec<_> = Preset::all().map(|preset| preset.envelope.rules()).collect();
    let form = EnvelopeRules { form_as_object: true, ..EnvelopeRules::default() };
    let items = JsonPointer::parse("/items").expect("a pointer");
    rules.extend([form, EnvelopeRules { items: Some(items), ..EnvelopeRules::default() }]);
    rules
});

/// Events that are found have an id that can be a key; idempotency keys that are found are printable.
fn envelope(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    let request = request(rest);
    for policy in [KeyPolicy::Required, KeyPolicy::Optional, KeyPolicy::Ignored] {
        if let Ok(Some(key)) = idempotency_key(policy, &request) {
            let key = key.as_str();
            assert!((1..=MAX_IDEMPOTENCY_KEY_CHARS).contains(&key.len()));
            assert!(key.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{key:?}");
        }
    }
    let rules = &RULES[usize::from(*which) % RULES.len()];
    let consumer: Arc<str> = "shop".into();
    if let Ok(parsed) = rules.parse(&consumer, &request) {
        assert!(parsed.is_batch || parsed.events.len() == 1);
        for event in parsed.events {
            assert!(!event.key.event_id.is_empty() && event.key.event_id.len() <= MAX_EVENT_ID_BYTES);
            assert!(!event.key.event_id.contains('\0'), "no database takes it");
            JsonStr::check(event.payload.as_str()).expect("a payload is JSON");
            JsonStr::check(event.data.as_str()).expect("data is JSON");
        }
    }
}

/// A sender's verifier, with a secret that no input knows, and the headers it reads.
struct Known {
    verifier: Verifier,
    headers: Vec<String>,
}

static SENDERS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let with_secret = Preset::all().filter(|preset| preset.scheme != "paypal");
    with_secret
        .map(|preset| {
            let config = VerifyConfig {
                scheme: preset.scheme.to_owned(),
                url: preset.needs_url().then(|| "https://hooks.example.com/hooks/x".to_owned()),
                ..VerifyConfig::default()
            };
            let made = generate(preset.scheme, false).expect("a secret");
            let build =
                |secret| Verifier::new(&config, vec![Secret::new(secret)]).expect("a valid configuration");
            let signer = build(made.secret.expose().to_owned());
            let signed = signer.sign_request("POST", "/hooks/x", BODY, "msg_1", now());
            let headers = signed.map(|signed| signed.headers).unwrap_or_default();
            let verifier = build(made.public.unwrap_or_else(|| made.secret.expose().to_owned()));
            Known { verifier, headers: headers.into_iter().map(|(name, _)| name).collect() }
        })
        .collect()
});

const BODY: &[u8] = br#"{"id":"evt_1","webhookTimestamp":1700000000000}"#;

/// No header makes a verifier panic, and none that was not made with the secret is accepted. The first
/// byte of an input says which sender; a header called `@`, `@@` or so is the first, second or so that
/// this sender signs in.
fn headers(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    let Known { verifier, headers } = &SENDERS[usize::from(*which) % SENDERS.len()];
    let mut request = request(rest);
    let meant = |name: &str| {
        let is_placeholder = !name.is_empty() && name.bytes().all(|byte| byte == b'@');
        is_placeholder.then(|| headers.get(name.len() - 1)).flatten().cloned()
    };
    let sent = request.headers.iter();
    request.headers =
        sent.map(|(name, value)| (meant(name).unwrap_or_else(|| name.to_owned()), value)).collect();
    assert!(verifier.verify("POST", &request, now()).is_err(), "{verifier:?} accepts what nobody signed");
    let _explained = verifier.explain("POST", &request, None, now());
}

/// A template that is accepted signs what it accepts.
fn template(input: &[u8]) {
    let Ok(signed) = std::str::from_utf8(input) else { return };
    let config = VerifyConfig {
        scheme: "hmac".to_owned(),
        header: Some("x-signature".to_owned()),
        separator: Some(",".to_owned()),
        signature_field: Some("v1".to_owned()),
        timestamp_field: Some("t".to_owned()),
        id_header: Some("x-id".to_owned()),
        url: Some("https://hooks.example.com/hooks/x".to_owned()),
        signed: Some(signed.to_owned()),
        ..VerifyConfig::default()
    };
    let Ok(verifier) = Verifier::new(&config, vec![Secret::new("a secret of the fuzz targets")]) else {
        return;
    };
    let Ok(made) = verifier.sign_request("POST", "/hooks/x?a=1", b"{\"a\":\"\\u00e9\"}", "msg_1", now())
    else {
        return;
    };
    let headers = made.headers.into_iter().collect();
    let request = RawRequest { target: made.target.into(), headers, body: Bytes::from(made.body) };
    verifier.verify("POST", &request, now()).expect("what was signed is accepted");
}

/// Whatever stands in the file, it is read or refused with a sentence; a secret is in no sentence.
fn config(input: &[u8]) {
    const SECRET: &str = "whsec_bmV2ZXItc2hvd24tYW55d2hlcmU=";
    let Ok(text) = std::str::from_utf8(input) else { return };
    // `file:` would read files of this machine.
    let text = text.replace("file:", "env:").replace("SECRET", SECRET);
    let environment = Environment::from_iter([("A", "x")]);
    if let Err(error) = Config::parse("fuzz.toml", &text, &environment) {
        assert!(!error.findings.is_empty());
        for finding in &error.findings {
            assert!(!finding.message.is_empty(), "{finding}");
        }
    }
}

/// Lines `name: value`, an empty line, the body.
fn request(input: &[u8]) -> RawRequest {
    let split = input.windows(2).position(|window| window == b"\n\n");
    let (head, body) = split.map_or((&[][..], input), |at| (&input[..at], &input[at + 2..]));
    let headers = head.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        Some((name, line[colon + 1..].trim_ascii()))
    });
    RawRequest {
        target: "/hooks/x?a=1".into(),
        headers: headers.collect(),
        body: Bytes::copy_from_slice(body),
    }
}
