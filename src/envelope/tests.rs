//! Bodies that senders send, and bodies that no sender should.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::problem::Problem;
use crate::raw_headers::RawHeaders;

fn request(body: &[u8]) -> RawRequest {
    RawRequest {
        target: "/hooks/shop".into(),
        headers: RawHeaders::new(),
        body: Bytes::copy_from_slice(body),
    }
}

fn with_header(mut request: RawRequest, name: &str, value: &[u8]) -> RawRequest {
    request.headers.push(name, value);
    request
}

fn edge(file: &str) -> RawRequest {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payloads/edge").join(file);
    request(&std::fs::read(path).unwrap())
}

fn locators(places: &[&str]) -> Locators {
    Locators::new(places.iter().map(|place| Locator::parse(place).unwrap()).collect()).unwrap()
}

fn pointer(text: &str) -> JsonPointer {
    JsonPointer::parse(text).unwrap()
}

impl EnvelopeRules {
    fn read(&self, request: &RawRequest) -> Result<Parsed, EnvelopeError> {
        self.parse(&"shop".into(), request)
    }

    fn one(&self, request: &RawRequest) -> Result<Event, EnvelopeError> {
        self.read(request).map(|mut parsed| {
            assert_eq!(parsed.events.len(), 1);
            parsed.events.remove(0)
        })
    }

    fn id(&self, request: &RawRequest) -> Result<String, Problem> {
        self.one(request).map(|event| event.key.event_id.to_string()).map_err(|error| error.problem())
    }
}

fn id(request: &RawRequest) -> Result<String, Problem> {
    EnvelopeRules::default().id(request)
}

fn items_rules(items: &str) -> EnvelopeRules {
    EnvelopeRules { items: Some(pointer(items)), ..EnvelopeRules::default() }
}

#[test]
fn every_edge_body_has_its_documented_answer() {
    let long_id = "e".repeat(300);
    for (file, answer) in [
        ("bom_prefix.json", Ok("evt_bom_1")),
        ("double_bom_prefix.json", Err(Problem::MalformedBody)),
        ("duplicate_id_key.json", Err(Problem::MalformedBody)),
        ("empty.json", Err(Problem::MalformedBody)),
        ("escaped_id_key.json", Ok("evt_esckey_1")),
        ("float_money.json", Ok("evt_flt_1")),
        ("id_300_chars.json", Ok(long_id.as_str())),
        ("id_bool.json", Err(Problem::InvalidEventId)),
        ("id_empty.json", Err(Problem::InvalidEventId)),
        ("id_int_1.json", Ok("1")),
        ("id_null.json", Err(Problem::InvalidEventId)),
        ("id_object.json", Err(Problem::InvalidEventId)),
        ("id_string_1.json", Ok("1")),
        ("id_uuid_lower.json", Ok("7d2f6c6e-8c5b-4c0a-9b7f-0a1b2c3d4e5f")),
        ("id_uuid_upper.json", Ok("7D2F6C6E-8C5B-4C0A-9B7F-0A1B2C3D4E5F")),
        ("invalid_utf8.json", Err(Problem::MalformedBody)),
        ("nested_100000.json", Err(Problem::MalformedBody)),
        ("nested_200.json", Err(Problem::MalformedBody)),
        ("top_level_array.json", Err(Problem::MalformedBody)),
        ("top_level_string.json", Err(Problem::MalformedBody)),
        ("trailing_crlf.json", Ok("evt_crlf_1")),
        ("trailing_lf.json", Ok("evt_lf_1")),
        ("truncated.json", Err(Problem::MalformedBody)),
        ("unicode_raw_emoji.json", Ok("evt_emo_1")),
        ("whitespace_only.json", Err(Problem::MalformedBody)),
    ] {
        let found = id(&edge(file));
        assert!(found.as_deref() == answer.as_ref().copied(), "{file}: {found:?}");
    }
}

#[test]
fn payload_and_data_are_slices_exactly_as_sent() {
    let rules = EnvelopeRules { data: Some(pointer("/data")), ..EnvelopeRules::default() };
    let request = edge("float_money.json");
    let event = rules.one(&request).unwrap();
    assert_eq!(event.payload.as_str().as_bytes(), request.body);
    assert_eq!(event.data.as_str(), r#"{"a":1.10,"b":1.1,"c":-0.0,"d":1E2}"#);
    let event = rules.one(&edge("bom_prefix.json")).unwrap();
    assert_eq!(event.payload.as_str(), r#"{"id":"evt_bom_1","type":"t","data":{}}"#);
    let event = rules.one(&edge("trailing_crlf.json")).unwrap();
    assert!(event.payload.as_str().ends_with('}'));
}

#[test]
fn data_that_is_absent_is_null_and_unset_data_is_the_event() {
    let rules = EnvelopeRules { data: Some(pointer("/data")), ..EnvelopeRules::default() };
    let event = rules.one(&request(br#"{"id":1}"#)).unwrap();
    assert_eq!(event.data.as_str(), "null");
    let event = EnvelopeRules::default().one(&request(br#"{"id":1}"#)).unwrap();
    assert_eq!(event.data, event.payload);
}

#[test]
fn ids_are_texts_or_integers_with_their_text_as_sent() {
    for (json, expected) in [
        (r#""\u0065vt_\/1""#, "evt_/1"),
        ("-1", "-1"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        (r#"" a ""#, " a "),
        (r#""ß😀""#, "ß😀"),
    ] {
        assert_eq!(id(&request(format!("{{\"id\":{json}}}").as_bytes())).as_deref(), Ok(expected), "{json}");
    }
    let too_long = format!("\"{}\"", "x".repeat(1025));
    for json in
        ["1.0", "1e3", "[1]", "false", "\"  \"", r#""a\u0000""#, r#""a\n""#, r#""\ud800""#, too_long.as_str()]
    {
        let refused = id(&request(format!("{{\"id\":{json}}}").as_bytes()));
        assert_eq!(refused, Err(Problem::InvalidEventId), "{json}");
    }
    assert_eq!(id(&request(b"{}")), Err(Problem::MissingEventId));
    assert_eq!(id(&request(br#"{"ID":1}"#)), Err(Problem::MissingEventId));
}

#[test]
fn an_id_may_come_from_a_header() {
    let rules =
        EnvelopeRules { event_id: locators(&["header:X-GitHub-Delivery"]), ..EnvelopeRules::default() };
    let with = |value: &[u8]| with_header(request(b"{}"), "x-github-delivery", value);
    assert_eq!(rules.id(&with(b"7d2f")).as_deref(), Ok("7d2f"));
    assert_eq!(rules.id(&request(b"{}")), Err(Problem::MissingEventId));
    assert_eq!(rules.id(&with(b"")), Err(Problem::InvalidEventId));
    assert_eq!(rules.id(&with(b"\xe9")), Err(Problem::InvalidEventId));
    let twice = with_header(with(b"a"), "x-github-delivery", b"a");
    assert_eq!(rules.id(&twice), Err(Problem::InvalidEventId));
}

#[test]
fn no_two_lists_of_parts_make_one_id() {
    let rules = EnvelopeRules { event_id: locators(&["/source", "/id"]), ..EnvelopeRules::default() };
    let joined = |source: &str, id: &str| {
        rules.id(&request(serde_json::json!({"source": source, "id": id}).to_string().as_bytes()))
    };
    assert_eq!(joined("psp", "AUTH").as_deref(), Ok("psp:AUTH"));
    assert_eq!(joined("https://a", "b:c").as_deref(), Ok("https%3A//a:b:c"));
    assert_ne!(joined("a:b", "c"), joined("a", "b:c"));
    assert_ne!(joined("a%3Ab", "c"), joined("a:b", "c"));
    assert_eq!(rules.id(&request(br#"{"id":"1"}"#)), Err(Problem::MissingEventId));
    assert_eq!(joined("", "1"), Err(Problem::InvalidEventId));
    assert_eq!(joined(&"x".repeat(1023), "1"), Err(Problem::InvalidEventId));
}

#[test]
fn types_are_joined_and_what_is_absent_is_left_out() {
    let rules = EnvelopeRules {
        event_type: Some(locators(&["header:X-GitHub-Event", "/action"])),
        ..EnvelopeRules::default()
    };
    let event_type = |body: &[u8]| {
        rules.one(&with_header(request(body), "x-github-event", b"issues")).map(|event| event.event_type)
    };
    assert_eq!(&*event_type(br#"{"id":1,"action":"opened"}"#).unwrap(), "issues:opened");
    assert_eq!(&*event_type(br#"{"id":1,"action":7}"#).unwrap(), "issues:7");
    assert_eq!(&*event_type(br#"{"id":1,"action":null}"#).unwrap(), "issues");
    assert_eq!(&*event_type(br#"{"id":1}"#).unwrap(), "issues");
    assert_eq!(&*rules.one(&request(br#"{"id":1}"#)).unwrap().event_type, "");
    let long = format!(r#"{{"id":1,"action":"{}"}}"#, "x".repeat(249));
    for body in [r#"{"id":1,"action":{}}"#, r#"{"id":1,"action":"a\n"}"#, &long] {
        assert_eq!(event_type(body.as_bytes()).unwrap_err().problem(), Problem::MalformedBody);
    }
}

#[test]
fn a_time_is_read_and_one_that_cannot_be_read_refuses_the_delivery() {
    let rules =
        EnvelopeRules { event_time: Some(Locator::parse("/created").unwrap()), ..EnvelopeRules::default() };
    let time = |json: &str| {
        rules.one(&request(format!(r#"{{"id":1{json}}}"#).as_bytes())).map(|event| event.occurred_at)
    };
    let expected = DateTime::from_timestamp_secs(1_700_000_000);
    for json in ["1700000000", "1700000000000", "\"2023-11-14T22:13:20Z\"", "\"1700000000\""] {
        assert_eq!(time(&format!(",\"created\":{json}")), Ok(expected), "{json}");
    }
    assert_eq!(time(""), Ok(None));
    assert_eq!(time(",\"created\":null"), Ok(None));
    for json in ["\"soon\"", "1.5", "true", "9999999999999999"] {
        let refused = time(&format!(",\"created\":{json}")).unwrap_err();
        assert_eq!(refused.problem(), Problem::MalformedBody, "{json}");
    }
}

#[test]
fn an_event_with_an_entity_needs_a_sequence() {
    let rules = EnvelopeRules {
        order_by: Some(toml::from_str("entity = \"/order\"\nsequence = \"/version\"").unwrap()),
        ..EnvelopeRules::default()
    };
    let order = |json: &str| {
        let request = request(format!(r#"{{"id":1{json}}}"#).as_bytes());
        rules.one(&request).map(|event| event.order).map_err(|error| error.problem())
    };
    let at = |entity: &str, sequence| Ok(Some(OrderKey { entity: entity.into(), sequence }));
    assert_eq!(order(r#","order":"o-1","version":3"#), at("o-1", 3));
    assert_eq!(order(r#","order":5,"version":"1970-01-01T00:00:01Z""#), at("5", 1_000_000));
    assert_eq!(order(r#","version":3"#), Ok(None));
    assert_eq!(order(r#","order":null"#), Ok(None));
    for json in [r#","order":"o-1""#, r#","order":"","version":1"#, r#","order":"o","version":1.5"#] {
        assert_eq!(order(json), Err(Problem::MalformedBody), "{json}");
    }
}

#[test]
fn items_are_events_of_their_own() {
    let rules = EnvelopeRules { data: Some(pointer("/d")), ..items_rules("/items") };
    let parsed = rules.read(&request(br#"{"items":[{"id":1,"d":[1.0]}, {"id":"b","type":"t"}]}"#)).unwrap();
    assert!(parsed.is_batch);
    let seen: Vec<_> = parsed
        .events
        .iter()
        .map(|event| (&*event.key.event_id, &*event.event_type, event.payload.as_str(), event.data.as_str()))
        .collect();
    assert_eq!(
        seen,
        [("1", "", r#"{"id":1,"d":[1.0]}"#, "[1.0]"), ("b", "t", r#"{"id":"b","type":"t"}"#, "null")]
    );
    let parsed = items_rules("").read(&edge("top_level_array.json")).unwrap();
    assert_eq!(parsed.events.len(), 2);
}

#[test]
fn a_list_of_one_is_a_batch_and_an_empty_list_is_nothing_to_do() {
    let parsed = items_rules("").read(&request(br#"[{"id":1}]"#)).unwrap();
    assert!(parsed.is_batch);
    let parsed = items_rules("/events").read(&request(br#"{"events":[]}"#)).unwrap();
    assert!(parsed.is_batch && parsed.events.is_empty());
}

#[test]
fn one_item_that_does_not_fit_refuses_the_delivery_and_is_named() {
    let detail = |items: &str, body: &str| items_rules(items).read(&request(body.as_bytes())).unwrap_err();
    let error = detail("", r#"[{"id":1},{"x":1}]"#);
    assert_eq!(error.to_string(), "Event 2 of the body: The event id at body:/id is missing.");
    assert_eq!(error.problem(), Problem::MissingEventId);
    for (items, body) in [
        ("", "{}"),
        ("", "[1]"),
        ("/e", "{}"),
        ("/e", r#"{"e":{}}"#),
        ("/e", r#"{"e":null}"#),
        ("/0", "[[]]"),
    ] {
        assert_eq!(detail(items, body).problem(), Problem::MalformedBody, "{items} {body}");
    }
    let many = |count: usize| format!("[{}]", vec![r#"{"id":1}"#; count].join(","));
    assert!(items_rules("").read(&request(many(MAX_EVENTS_PER_DELIVERY).as_bytes())).is_ok());
    let error = detail("", &many(MAX_EVENTS_PER_DELIVERY + 1));
    assert_eq!(error, EnvelopeError::TooManyItems { limit: MAX_EVENTS_PER_DELIVERY });
}

#[test]
fn rules_that_cannot_work_are_refused() {
    let rules = EnvelopeRules { event_id: locators(&["header:X-Id"]), ..items_rules("") };
    assert_eq!(rules.check(), Err(RulesError::OneIdForAllItems));
    let rules = EnvelopeRules { event_id: locators(&["header:X-Id", "/n"]), ..items_rules("") };
    assert_eq!(rules.check(), Ok(()));
    let rules = EnvelopeRules { form_field: String::new(), ..EnvelopeRules::default() };
    assert_eq!(rules.check(), Err(RulesError::EmptyFormField));
    assert_eq!(EnvelopeRules::default().check(), Ok(()));
}

#[test]
fn a_form_and_a_bare_body_give_the_same_event() {
    let form = with_header(
        request(b"payload=%7B%22id%22%3A%22a%2Bb%22%2C%22type%22%3A%22x+y%22%7D"),
        "content-type",
        b"application/x-www-form-urlencoded",
    );
    let event = EnvelopeRules::default().one(&form).unwrap();
    assert_eq!(event.payload.as_str(), r#"{"id":"a+b","type":"x y"}"#);
    assert_eq!((&*event.key.event_id, &*event.event_type), ("a+b", "x y"));
}

#[test]
fn a_refusal_shows_nothing_of_the_body() {
    for body in [
        r#"{"id":"very private""#,
        r#"{"id":{"very":"private"}}"#,
        r#"{"very private":1,"very private":2}"#,
        "very private",
        r#"{"id":"very private\n"}"#,
    ] {
        let error = EnvelopeRules::default().read(&request(body.as_bytes())).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("private"), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_events_or_a_clean_refusal(body: Vec<u8>, form: bool) {
        let mut request = request(&body);
        if form {
            request = with_header(request, "content-type", b"application/x-www-form-urlencoded");
        }
        for rules in [EnvelopeRules::default(), items_rules(""), items_rules("/a")] {
            if let Ok(parsed) = rules.read(&request) {
                prop_assert!(parsed.is_batch || parsed.events.len() == 1);
            }
        }
    }

    #[test]
    fn nearly_an_event_is_read_as_serde_json_reads_it(
        body in r#"\{"(id|type|\\u0069d)":("[a-z\\u0]{0,6}"|[0-9.e-]{1,4}|null|\{\}|\[\]),"[a-z]{1,4}":[0-9]\}"#
    ) {
        let Ok(parsed) = EnvelopeRules::default().one(&request(body.as_bytes())) else { return Ok(()) };
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        let expected = match &value["id"] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // serde_json reads -0 as a float.
        let expected = if expected == "-0.0" { "-0".to_owned() } else { expected };
        prop_assert_eq!(&*parsed.key.event_id, expected);
    }
}
