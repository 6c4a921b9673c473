//! Hostile and unusual bodies: BOMs, content types, odd ids, deep nesting, broken text.

use super::{GITHUB, github};
use crate::support::app::{SHOP, order};
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

/// As deep as a body may nest.
const DEEPEST: usize = 127;

fn nested(depth: usize) -> String {
    format!(r#"{{"id":"evt_deep","deep":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1))
}

on_both_stores! {
    async fn one_byte_order_mark_is_skipped_and_two_are_refused(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        app.deliver("shop", format!("\u{feff}{}", order("evt_bom"))).await.expect(200, "applied");
        app.send(&github("d-bom", format!("\u{feff}{}", order("x")))).await.expect(200, "applied");
        let two = format!("\u{feff}\u{feff}{}", order("evt_two"));
        app.deliver("shop", two).await.expect_problem(400, "malformed-body");
        assert_eq!(app.database.effects().await, 2);
    }

    async fn json_is_json_whatever_the_content_type_says(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let types = [
            "application/json; charset=utf-8",
            "APPLICATION/JSON",
            "application/cloudevents+json; charset=utf-8",
            "application/cloudevents-batch+json",
            "text/plain;charset=UTF-8",
            "application/octet-stream",
            "not a media type",
        ];
        for (n, content_type) in types.iter().enumerate() {
            let request = Request::post("/hooks/shop", order(&format!("evt_{n}")))
                .without("content-type")
                .header("content-type", content_type);
            assert_eq!(app.send(&request).await.outcome(), "applied", "{content_type}");
        }
        let none = Request::post("/hooks/shop", order("evt_none")).without("content-type");
        app.send(&none).await.expect(200, "applied");
        assert_eq!(app.database.number("SELECT count(*) FROM effects WHERE amount = 1").await, 8);
    }

    async fn a_form_carries_its_json_in_the_field_payload(backend: Backend) {
        let source = format!("{SHOP}{}", GITHUB);
        let app = Setup::new(backend).sources(&source).start().await;
        let form = |request: Request| {
            request.without("content-type").header("content-type", "application/x-www-form-urlencoded")
        };
        // `+` is a blank, %2B a plus.
        let body = "a=1&payload=%7B%22id%22%3A%22a+b%2Bc%22%2C%22data%22%3A%7B%22amount%22%3A5%7D%7D";
        app.send(&form(Request::post("/hooks/shop", body))).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("a b+c").await, 1);
        app.send(&form(github("d-form", body))).await.expect(200, "applied");
        app.send(&form(github("d-none", "a=1"))).await.expect_problem(400, "malformed-body");
        app.send(&form(github("d-broken", "payload=%7B%22"))).await.expect_problem(400, "malformed-body");
    }

    async fn an_integer_id_and_the_same_digits_as_text_are_one_event(backend: Backend) {
        let mut app = Setup::new(backend).start().await;
        app.deliver("shop", r#"{"id":1,"data":{"amount":1}}"#).await.expect(200, "applied");
        app.deliver("shop", r#"{"id":"1","data":{"amount":1}}"#).await.expect(200, "replayed");
        app.kill();
        app.start();
        app.deliver("shop", r#"{"id":1,"data":{"amount":1}}"#).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("1").await, 1);
    }

    async fn ids_are_kept_exactly_as_sent(backend: Backend) {
        let app = Setup::new(backend).start().await;
        // 30 digits: beyond any integer type, not rounded.
        for id in ["123456789012345678901234567890", "123456789012345678901234567891"] {
            app.deliver("shop", format!(r#"{{"id":{id},"data":{{"amount":1}}}}"#)).await.expect(200, "applied");
            assert_eq!(app.database.effects_of(id).await, 1, "{id}");
        }
        let upper = "5F1C5B9E-0000-4000-8000-0000000000AB";
        app.deliver("shop", order(upper)).await.expect(200, "applied");
        app.deliver("shop", order(&upper.to_lowercase())).await.expect(200, "applied");
    }

    async fn what_is_no_id_is_refused_and_never_becomes_a_shared_key(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for id in ["null", r#""""#, "true", r#"{"a":1}"#, "[1]", "1.5", "1e3", r#""a\u0000b""#, r#""a\nb""#] {
            let answer = app.deliver("shop", format!(r#"{{"id":{id},"data":{{"amount":1}}}}"#)).await;
            assert_eq!(answer.status, 400, "{id}: {}", answer.text());
        }
        assert_eq!(app.database.rows("processed_events").await, 0);
    }

    async fn long_ids_are_never_cut(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for length in [255, 256, 1024] {
            let stem = "x".repeat(length - 1);
            for end in ["a", "b"] {
                let id = format!("{stem}{end}");
                app.deliver("shop", order(&id)).await.expect(200, "applied");
                assert_eq!(app.database.effects_of(&id).await, 1);
            }
        }
        let multibyte = "é".repeat(512);
        app.deliver("shop", order(&multibyte)).await.expect(200, "applied");
        app.deliver("shop", order(&multibyte)).await.expect(200, "replayed");
        for length in [1025, 8192] {
            app.deliver("shop", order(&"x".repeat(length))).await.expect_problem(400, "invalid-event-id");
        }
    }

    async fn duplicate_object_keys_are_refused_wherever_they_stand(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for body in [
            r#"{"id":"evt_A","data":{"amount":1},"id":"evt_B"}"#,
            r#"{"id":"evt_A","\u0069d":"evt_B","data":{"amount":1}}"#,
            r#"{"id":"evt_A","data":{"amount":1,"amount":2}}"#,
        ] {
            app.deliver("shop", body).await.expect_problem(400, "malformed-body");
        }
        // An escaped key that stands once is that key.
        app.deliver("shop", r#"{"\u0069d":"evt_C","data":{"amount":1}}"#).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("evt_C").await, 1);
        assert_eq!(app.database.effects().await, 1);
    }

    async fn deep_nesting_is_refused_and_does_not_end_the_process(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", nested(DEEPEST)).await.expect(200, "applied");
        for depth in [DEEPEST + 1, 200, 100_000] {
            app.deliver("shop", nested(depth)).await.expect_problem(400, "malformed-body");
        }
        let objects = format!(r#"{}1{}"#, r#"{"a":"#.repeat(50_000), "}".repeat(50_000));
        app.deliver("shop", objects).await.expect_problem(400, "malformed-body");
        app.deliver("shop", order("evt_alive")).await.expect(200, "applied");
    }

    async fn what_is_not_json_is_refused(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        let bodies: [&[u8]; 7] = [
            b"",
            b" \n\t ",
            br#"{"id":"evt_1""#,
            b"{\"id\":\"evt_\xff\"}",
            br#"{"id":"evt_1"} {"id":"evt_2"}"#,
            br#"{"id":"evt_1",}"#,
            br#"{'id':'evt_1'}"#,
        ];
        for body in bodies {
            let shown = String::from_utf8_lossy(body).into_owned();
            let answer = app.deliver("shop", body).await;
            assert_eq!((answer.status, answer.outcome()), (400, "malformed"), "{shown}: {}", answer.text());
            let signed = app.send(&github("d1", body)).await;
            assert_eq!(signed.status, 400, "{shown}");
        }
        // Half a surrogate pair is JSON, but no text, so no id.
        app.deliver("shop", r#"{"id":"\ud800"}"#).await.expect_problem(400, "invalid-event-id");
        app.deliver("shop", r#""a string""#).await.expect_problem(400, "malformed-body");
        assert_eq!(app.database.rows("processed_events").await, 0);
    }

    async fn json_that_a_database_cannot_hold_is_answered_not_failed(backend: Backend) {
        let app = Setup::new(backend).start().await;
        // All three are legal JSON; PostgreSQL's jsonb refuses the first two.
        let bodies = [
            r#"{"id":"evt_nul","data":{"amount":1,"text":"a\u0000b"}}"#,
            r#"{"id":"evt_half","data":{"amount":1,"text":"\ud800"}}"#,
            r#"{"id":"evt_huge","data":{"amount":1,"number":1e400}}"#,
        ];
        for body in bodies {
            let answer = app.deliver("shop", body).await;
            assert!(answer.is_success() || answer.status == 422, "{body}: {} {}", answer.status, answer.text());
            let again = app.deliver("shop", body).await;
            assert_eq!(again.status, answer.status, "{body}");
        }
        app.deliver("shop", order("evt_next")).await.expect(200, "applied");
    }

    async fn unicode_is_signed_and_kept_as_it_came(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        let raw = r#"{"text":"ça va 🎉"}"#;
        let escaped = r#"{"text":"\u00e7a va \ud83c\udf89"}"#;
        app.send(&github("d-raw", raw)).await.expect(200, "applied");
        app.send(&github("d-escaped", escaped)).await.expect(200, "applied");
        let mut swapped = github("d-swapped", raw);
        swapped.body = escaped.into();
        app.send(&swapped).await.expect_problem(401, "signature-invalid");
        app.deliver("shop", order("évt-🎉")).await.expect(200, "applied");
        assert_eq!(app.database.effects_of("évt-🎉").await, 1);
    }
}
