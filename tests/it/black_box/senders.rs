//! Real bodies of real senders, signed as each of them signs, over HTTP: the right event is read, it
//! takes effect once, and one changed bit is refused.
//!
//! Each payload has a source of its own, configured with nothing but the sender's name and secret.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::support::app::unix_now;
use crate::support::on_both_stores;
use crate::support::signing::{hmac_base64, hmac_hex, standard_webhooks};
use crate::support::{Backend, Request, Setup};

const SECRET: &str = "never-log-this-secret";
const STANDARD_SECRET: &str = "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0ISE=";

/// Published with the payloads (tests/vectors).
const ADYEN_KEY: &str = "74F490DD33F7327BAECC88B2947C011FC02D014A473AAA33A8EC93E4DC069174";
const SENDGRID_KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
const SENDGRID_SIGNATURE: &str =
    "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=";
const SQUARE_KEY: &str = "Ibxx_5AKakO-3qeNVR61Dw";
const SQUARE_URL: &str = "https://webhook.site/679a4f3a-dcfa-49ee-bac5-9d0edad886b9";
const SQUARE_SIGNATURE: &str = "GF4YkrJgGBDZ9NIYbNXBnMzqb2HoL4RW/S6vkZ9/2N4=";
const HUBSPOT_KEY: &str = "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy";
const HUBSPOT_V1: &str = "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de";

const URL: &str = "https://hooks.example/in";

/// A payload, the preset it comes through, and the events in it: id and type.
struct Sample {
    file: &'static str,
    scheme: &'static str,
    events: &'static [(&'static str, &'static str)],
}

const fn sample(
    file: &'static str,
    scheme: &'static str,
    events: &'static [(&'static str, &'static str)],
) -> Sample {
    Sample { file, scheme, events }
}

const SAMPLES: [Sample; 28] = [
    sample("github_ping", "github", &[("d-github_ping", "ping")]),
    sample("github_push_branch_minified", "github", &[("d-github_push_branch_minified", "ping")]),
    sample("github_push_tag_deleted", "github", &[("d-github_push_tag_deleted", "ping")]),
    sample("github_issues_opened", "github", &[("d-github_issues_opened", "ping")]),
    sample(
        "github_pull_request_opened_null_body",
        "github",
        &[("d-github_pull_request_opened_null_body", "ping")],
    ),
    sample("github_workflow_run_completed", "github", &[("d-github_workflow_run_completed", "ping")]),
    sample("stripe_evt_plan_created", "stripe", &[("evt_1Pgc76B7WZ01zgkWwyRHS12y", "plan.created")]),
    sample(
        "stripe_evt_payment_intent_succeeded",
        "stripe",
        &[("evt_test_pi_succeeded_0001", "payment_intent.succeeded")],
    ),
    sample(
        "stripe_evt_checkout_session_completed",
        "stripe",
        &[("evt_test_cs_completed_0001", "checkout.session.completed")],
    ),
    sample(
        "stripe_evt_subscription_updated",
        "stripe",
        &[("evt_test_sub_updated_0002", "customer.subscription.updated")],
    ),
    sample(
        "stripe_evt_charge_refunded_minified",
        "stripe",
        &[("evt_test_ch_refunded_0001", "charge.refunded")],
    ),
    sample("shopify_orders_create", "shopify", &[("d-shopify_orders_create", "orders/create")]),
    sample("shopify_products_update", "shopify", &[("d-shopify_products_update", "orders/create")]),
    sample("slack_event_message", "slack", &[("Ev0000MSG01", "message")]),
    sample("slack_app_mention", "slack", &[("Ev0000TEST01", "app_mention")]),
    sample("slack_channel_rename", "slack", &[("Ev0000TEST01", "channel_rename")]),
    sample("slack_file_shared", "slack", &[("Ev0000TEST01", "file_shared")]),
    sample("slack_url_verification", "slack", &[]),
    sample(
        "adyen_standard_two_items",
        "adyen",
        &[
            ("EXAMPLEPSP000002:AUTHORISATION:true", "AUTHORISATION"),
            ("ZVWN7D3WSMK2WN82:AUTHORISATION:true", "AUTHORISATION"),
        ],
    ),
    sample(
        "sendgrid_events_single_crlf",
        "sendgrid",
        &[("ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA", "dropped")],
    ),
    sample(
        "square_test_notification",
        "square",
        &[("ac3ac95b-f97d-458c-a6e6-18981597e05f", "webhooks.test_notification")],
    ),
    sample("hubspot_batch", "hubspot", &[("1", "contact.creation")]),
    sample("hubspot_batch", "hubspot-v2", &[("1", "contact.creation")]),
    sample("hubspot_batch", "hubspot-v1", &[("1", "contact.creation")]),
    sample(
        "standard_webhooks_contact_created",
        "standard-webhooks",
        &[("d-standard_webhooks_contact_created", "contact.created")],
    ),
    sample(
        "standard_webhooks_contact_created",
        "svix",
        &[("d-standard_webhooks_contact_created", "contact.created")],
    ),
    sample(
        "cloudevents_structured",
        "cloudevents",
        &[("/mycontext:C234-1234-1234", "com.example.someevent")],
    ),
    // A form, as GitHub sends it when it is told to; the payload is what the form's field holds.
    sample("github_ping_as_a_form", "github", &[("d-github_ping_as_a_form", "ping")]),
];

impl Sample {
    fn source(&self) -> String {
        format!("{}-{}", self.file, self.scheme)
    }

    fn body(&self) -> Vec<u8> {
        let read = |file: &str| {
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payloads").join(format!("{file}.json"));
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        match self.file.strip_suffix("_as_a_form") {
            None => read(self.file),
            Some(file) => {
                let encode = |byte: u8| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                    b' ' => "+".to_owned(),
                    _ => format!("%{byte:02X}"),
                };
                let encoded: String = read(file).into_iter().map(encode).collect();
                format!("payload={encoded}").into_bytes()
            }
        }
    }

    fn config(&self) -> String {
        let (secret, more) = match self.scheme {
            "adyen" => (ADYEN_KEY, String::new()),
            "sendgrid" => (SENDGRID_KEY, String::new()),
            "square" => (SQUARE_KEY, format!(", url = \"{SQUARE_URL}\"")),
            "hubspot" | "hubspot-v2" => (HUBSPOT_KEY, format!(", url = \"{URL}\"")),
            "hubspot-v1" => (HUBSPOT_KEY, String::new()),
            "standard-webhooks" | "svix" => (STANDARD_SECRET, String::new()),
            _ => (SECRET, String::new()),
        };
        format!(
            "[[source]]\nname = \"{}\"\nverify = {{ scheme = \"{}\", secrets = [\"{secret}\"]{more} }}\n\
             [[source.handler]]\nsql = \"INSERT INTO effects (source, event_id) SELECT source, id FROM event\"\n",
            self.source(),
            self.scheme,
        )
    }

    /// Signed now, as the sender signs; with the published signature where there is one.
    fn request(&self) -> Request {
        let body = self.body();
        let text = String::from_utf8(body.clone()).expect("the samples are UTF-8");
        let (now, id) = (unix_now(), format!("d-{}", self.file));
        let request = Request::post(&format!("/hooks/{}", self.source()), body.clone());
        match self.scheme {
            "github" => {
                let signature = format!("sha256={}", hmac_hex(SECRET, &body));
                let request = request.header("x-github-delivery", &id).header("x-github-event", "ping");
                let request = request.header("x-hub-signature-256", signature);
                if text.starts_with("payload=") {
                    request
                        .without("content-type")
                        .header("content-type", "application/x-www-form-urlencoded")
                } else {
                    request
                }
            }
            "stripe" => {
                let signature = hmac_hex(SECRET, format!("{now}.{text}").as_bytes());
                request.header("stripe-signature", format!("t={now},v1={signature},v0={}", "0".repeat(64)))
            }
            "shopify" => request
                .header("x-shopify-webhook-id", &id)
                .header("x-shopify-topic", "orders/create")
                .header("x-shopify-hmac-sha256", hmac_base64(SECRET, &body)),
            "slack" => {
                let signature = hmac_hex(SECRET, format!("v0:{now}:{text}").as_bytes());
                request
                    .header("x-slack-request-timestamp", now.to_string())
                    .header("x-slack-signature", format!("v0={signature}"))
            }
            "adyen" => request,
            "sendgrid" => request
                .header("x-twilio-email-event-webhook-timestamp", "1600112502")
                .header("x-twilio-email-event-webhook-signature", SENDGRID_SIGNATURE),
            "square" => request.header("x-square-hmacsha256-signature", SQUARE_SIGNATURE),
            "hubspot" => {
                let millis = now * 1000;
                let signature = hmac_base64(HUBSPOT_KEY, format!("POST{URL}{text}{millis}").as_bytes());
                request
                    .header("x-hubspot-request-timestamp", millis.to_string())
                    .header("x-hubspot-signature-v3", signature)
            }
            "hubspot-v2" => {
                let hash = Sha256::digest(format!("{HUBSPOT_KEY}POST{URL}{text}"));
                request.header("x-hubspot-signature", hex::encode(hash))
            }
            "hubspot-v1" => request.header("x-hubspot-signature", HUBSPOT_V1),
            "standard-webhooks" | "svix" => {
                let prefix = if self.scheme == "svix" { "svix" } else { "webhook" };
                let signature = standard_webhooks(STANDARD_SECRET, &id, &now.to_string(), &body);
                request
                    .header(&format!("{prefix}-id"), &id)
                    .header(&format!("{prefix}-timestamp"), now.to_string())
                    .header(&format!("{prefix}-signature"), signature)
            }
            "cloudevents" => request
                .without("content-type")
                .header("content-type", "application/cloudevents+json; charset=utf-8")
                .header("authorization", format!("Bearer {SECRET}")),
            other => panic!("no sample of {other} says how it is signed"),
        }
    }

    /// The same with one bit changed somewhere in what proves it: the body, or the token.
    fn forgeries(&self) -> Vec<Request> {
        let genuine = self.request();
        if self.scheme == "cloudevents" {
            let forged = format!("Bearer {}", SECRET.replacen('n', "o", 1));
            return vec![genuine.without("authorization").header("authorization", forged)];
        }
        let length = genuine.body.len();
        let places = match self.scheme {
            // What is signed of a body that is not signed as a whole.
            "adyen" => ["ZVWN7D3W", "EXAMPLEPSP", "plain-ref"]
                .iter()
                .filter_map(|text| genuine.body.windows(text.len()).position(|part| part == text.as_bytes()))
                .collect(),
            _ => vec![0, length / 3, length / 2, length - 1],
        };
        let forged = places.into_iter().map(|at| {
            let mut forged = genuine.clone();
            forged.body[at] ^= 1;
            forged
        });
        forged.collect()
    }
}

fn setup(backend: Backend) -> Setup {
    let sources: String = SAMPLES.iter().map(Sample::config).collect();
    // The samples are years old, and an event older than the memory is not applied.
    Setup::new(backend).set("retention.processed_events", "\"36500d\"").sources(&sources)
}

on_both_stores! {
    async fn real_bodies_of_real_senders_take_effect_once(backend: Backend) {
        let app = setup(backend).start().await;
        let table = if matches!(backend, Backend::Postgres) { "hooklatch.processed_events" } else { "processed_events" };
        for sample in &SAMPLES {
            for forged in sample.forgeries() {
                let answer = app.send(&forged).await;
                assert_eq!((answer.status, answer.outcome()), (401, "unverified"), "{}", sample.source());
            }
            let first = app.send(&sample.request()).await;
            let again = app.send(&sample.request()).await;
            let outcomes = if sample.events.is_empty() { ("handshake", vec!["handshake"]) } else { ("applied", vec!["replayed", "duplicate"]) };
            assert_eq!((first.status, first.outcome()), (200, outcomes.0), "{}: {}", sample.source(), first.text());
            assert_eq!(again.status, 200, "{}", sample.source());
            assert!(outcomes.1.contains(&again.outcome()), "{}: {again:?}", sample.source());
            let stored = app.database.column(&format!(
                "SELECT event_id || ' ' || event_type FROM {table} WHERE source = '{}' ORDER BY event_id",
                sample.source(),
            )).await;
            let expected: Vec<_> = sample.events.iter().map(|(id, kind)| format!("{id} {kind}")).collect();
            assert_eq!(stored, expected, "{}", sample.source());
        }
        let events: usize = SAMPLES.iter().map(|sample| sample.events.len()).sum();
        assert_eq!(app.database.effects().await, i64::try_from(events).expect("a few"));
    }

    async fn no_header_bytes_of_any_sender_are_a_fault_of_ours(backend: Backend) {
        let app = setup(backend).start().await;
        let values: [&[u8]; 9] = [b"sha256=\xe9\xff", b"\xff", b"", b"=", b",,,;;;", b"t=,v1=", b"v1,", b"Bearer", b"Basic \xff"];
        for sample in &SAMPLES {
            let genuine = sample.request();
            for at in 0..genuine.headers.len() {
                if ["content-type", "x-github-event", "x-github-delivery", "x-shopify-topic", "x-shopify-webhook-id"].contains(&genuine.headers[at].0.as_str()) {
                    continue;
                }
                for value in values {
                    let mut request = genuine.clone();
                    request.headers[at].1 = value.to_vec();
                    let answer = app.send(&request).await;
                    assert!(matches!(answer.status, 400 | 401), "{} {}: {answer:?}", sample.source(), genuine.headers[at].0);
                }
            }
        }
        assert_eq!(app.database.effects().await, 0);
    }
}
