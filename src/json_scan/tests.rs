//! The scanner beside `serde_json`, which reads the same grammar.

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::check::FEW_KEYS;
use super::*;

fn fault(text: &str) -> &'static str {
    JsonStr::check(text).map(|_| ()).unwrap_err().problem
}

#[test]
fn what_json_forbids_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "[,1]",
        "{\"a\" 1}",
        "nul",
        "tru",
        "True",
        "01",
        "-",
        "-a",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "1 2",
        "{} x",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "\"\u{1}\"",
        "'a'",
        "[1}",
        "{\"a\":1]",
        "\u{feff}1",
        "NaN",
        "Infinity",
        "// x\n1",
        "\u{a0}1",
    ] {
        assert!(JsonStr::check(text).is_err(), "{text:?}");
        assert!(serde_json::from_str::<&RawValue>(text).is_err(), "{text:?}");
    }
}

#[test]
fn what_json_allows_is_accepted_as_it_stands() {
    for text in [
        "0",
        "-0",
        "1.10",
        "1e400",
        "-1.5E-7",
        "true",
        "null",
        "\"\"",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "{}",
        "[ ]",
        "[1 , 2]",
        "{\"\":{\"\":[]}}",
        "\"\u{7f}\u{80}\u{10ffff}\"",
    ] {
        assert_eq!(JsonStr::check(&format!(" \r\n\t{text} \n")).map(JsonStr::as_str), Ok(text));
        assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text:?}");
    }
}

#[test]
fn a_key_that_comes_twice_is_refused_wherever_and_however_it_is_written() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"id":1,"\u0069d":2}"#,
        r#"{"x":[{"y":{"a":1,"b":2,"a":3}}]}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
        r#"{"\ud800":1,"\ud800":2}"#,
        r#"{"a\/b":1,"a/b":2}"#,
    ] {
        assert_eq!(fault(text), DUPLICATE_KEY, "{text}");
    }
    for text in [r#"{"a":{"a":[{"a":1},{"a":2}]},"A":1}"#, r#"{"\ud800":1,"\ud801":2,"?":3}"#] {
        assert!(JsonStr::check(text).is_ok(), "{text}");
    }
}

#[test]
fn among_many_keys_a_repeated_one_is_found() {
    for count in [FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, 1000] {
        let mut members: Vec<_> = (0..count).map(|n| format!("\"k{n}\":{{\"k{n}\":0}}")).collect();
        assert!(JsonStr::check(&format!("{{{}}}", members.join(","))).is_ok());
        for repeated in [0, count / 2, count - 1] {
            members.push(format!("\"k{repeated}\":1"));
            assert_eq!(fault(&format!("{{{}}}", members.join(","))), DUPLICATE_KEY, "{count} {repeated}");
            members.pop();
        }
    }
}

#[test]
fn keys_that_differ_only_in_the_middle_or_in_length_are_different() {
    for count in [2, FEW_KEYS + 2] {
        let members: Vec<_> = (0..count).map(|n| format!("\"beginning-{n:03}-the end\":{n}")).collect();
        assert!(JsonStr::check(&format!("{{{}}}", members.join(","))).is_ok());
    }
    assert!(JsonStr::check(r#"{"":0,"\u0000":1,"\u0000\u0000":2,"a":3,"\u0000a":4}"#).is_ok());
}

#[test]
fn as_deep_as_serde_json_reads_is_accepted_and_one_deeper_is_not() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(JsonStr::check(&nested(MAX_DEPTH)).is_ok());
    assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH)).is_ok());
    assert!(fault(&nested(MAX_DEPTH + 1)).contains("nested deeper"));
    assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH + 1)).is_err());
    assert!(JsonStr::check(&"[".repeat(1_000_000)).is_err());
    assert!(JsonStr::check(&"{\"a\":".repeat(1_000_000)).is_err());
}

#[test]
fn a_fault_names_its_place() {
    assert_eq!(
        JsonStr::check("{\"a\":tru}").map(|_| ()),
        Err(JsonFault { problem: "a value is missing", offset: 5 })
    );
    assert_eq!(fault("{\"a\":"), "the text ends too early");
    assert_eq!(fault("{} {}"), "something follows the JSON value");
}

#[test]
fn strings_are_unescaped_and_half_a_pair_is_no_text() {
    let text = |json| JsonStr::check(json).unwrap().text();
    assert_eq!(text(r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#).unwrap(), "a\"\\/\u{8}\u{c}\n\r\té😀");
    assert_eq!(text(r#""\ud800""#), None);
    assert_eq!(text(r#""\ud800\u0041""#), None);
    assert_eq!(text(r#""\udc00\ud800""#), None);
    assert_eq!(text("1"), None);
}

#[test]
fn only_a_number_without_fraction_and_exponent_is_an_integer() {
    let integer = |json| JsonStr::check(json).unwrap().integer();
    assert_eq!(integer("-12"), Some("-12"));
    assert_eq!(integer("123456789012345678901234567890"), Some("123456789012345678901234567890"));
    for other in ["1.0", "1e3", "\"1\"", "true", "null", "{}", "[1]"] {
        assert_eq!(integer(other), None, "{other}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths are exact: serde_json rounds other fractions when it reads them.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::hash_map(any::<String>(), inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn walking_finds_what_serde_json_finds(value in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let json = JsonStr::check(&text).unwrap();
        match &value {
            Value::Object(members) => for (key, member) in members {
                let found = json.member(key).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(found.as_str()).unwrap(), member);
            },
            Value::Array(elements) => {
                let found: Vec<Value> =
                    json.elements().map(|e| serde_json::from_str(e.as_str()).unwrap()).collect();
                prop_assert_eq!(&found, elements);
            }
            Value::String(string) => prop_assert_eq!(&*json.text().unwrap(), string.as_str()),
            _ => prop_assert_eq!(json.as_str(), &text),
        }
    }

    #[test]
    fn nearly_json_is_judged_as_serde_json_judges_it(
        text in r#"[\[\]{},:"\\a0-9.eE+\- tnul]{0,24}"#
    ) {
        let ours = JsonStr::check(&text).map(JsonStr::as_str);
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(raw) => prop_assert!(
                ours == Ok(raw.get()) || ours.as_ref().is_err_and(|f| f.problem == DUPLICATE_KEY)
            ),
            Err(_) => prop_assert!(ours.is_err()),
        }
    }

    #[test]
    fn one_changed_byte_is_judged_as_serde_json_judges_it(value in any_json(), at: proptest::sample::Index, byte: u8) {
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let ours = JsonStr::check(text).map(JsonStr::as_str);
            match serde_json::from_str::<&RawValue>(text) {
                Ok(raw) => prop_assert!(
                    ours == Ok(raw.get()) || ours.as_ref().is_err_and(|f| f.problem == DUPLICATE_KEY)
                ),
                Err(_) => prop_assert!(ours.is_err()),
            }
        }
    }
}
