//! A destination that is away for an hour, lived through in a moment: the steps of a relay are called from
//! here, and it is the test that says what time it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use chrono::TimeDelta;
use hooklatch::clock::Clock;
use hooklatch::config::Config;
use hooklatch::config::Environment;
use hooklatch::outbox::destination;
use hooklatch::outbox::lane::{Lane, LaneParts};
use hooklatch::telemetry::metrics::Metrics;

use super::contract::database_at;
use super::sink::{Reply, Sink};
use super::{crm, in_state, table, write};
use crate::support::{Backend, TestDatabase, on_both_stores, signing};

const SECRET: &str = "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0";
const MINUTE_SECONDS: i64 = 60;
const MINUTES: i64 = 60;
/// What a receiver of signed requests bears.
const TOLERANCE_SECONDS: i64 = 300;

/// A minute passes, on our clock and on the database's.
async fn pass_a_minute(database: &TestDatabase, ahead: &AtomicI64) {
    ahead.fetch_add(MINUTE_SECONDS, Ordering::SeqCst);
    if database.backend == Backend::Postgres {
        // Its clock cannot be set: what was written is that much older.
        let minute = "interval '1 minute'";
        database
            .execute(&format!(
                "UPDATE hooklatch.outbox SET created_at = created_at - {minute},
                     next_attempt_at = next_attempt_at - {minute}, leased_until = leased_until - {minute}"
            ))
            .await;
    }
}

on_both_stores! {
    async fn after_an_hour_away_everything_arrives_in_order_under_its_id_freshly_signed(backend: Backend) {
        let is_up = Arc::new(AtomicBool::new(false));
        let up = is_up.clone();
        let sink = Sink::answering(move |_| Reply::status(if up.load(Ordering::SeqCst) { 200 } else { 500 })).await;
        let ahead = Arc::new(AtomicI64::new(0));
        let seconds = ahead.clone();
        let clock = Clock::from_fn(move || Clock::system().now() + TimeDelta::seconds(seconds.load(Ordering::SeqCst)));
        let (database, store) = database_at(backend, clock.clone()).await;
        // The breaker goes by the process's own time, of which next to none passes.
        let more = format!("breaker_failures = 1000000\nsign = {{ scheme = \"standard-webhooks\", secrets = [\"{SECRET}\"] }}");
        let config = Config::parse("test.toml", &crm(&sink.url(), &more), &Environment::of_process()).expect("is right");
        let spec = config.destinations[0].clone();
        let parts = LaneParts {
            store,
            clock: clock.clone(),
            metrics: Arc::new(Metrics::new()),
            options: config.relay.options(),
        };
        let mut lane = Lane::new(parts, spec.clone(), destination::open(&spec).expect("opens"));
        let payloads: Vec<(String, &str)> =
            (1..=5).flat_map(|n| ["a", "b", "c"].map(|of| (format!("{of}{n}"), of))).collect();
        let messages: Vec<_> = payloads.iter().map(|(text, of)| (text.as_str(), Some(*of))).collect();
        write(&database, &messages).await;
        for _ in 0..MINUTES {
            lane.step().await.expect("steps");
            pass_a_minute(&database, &ahead).await;
        }
        let before = sink.received();
        assert!(before.len() > 3 * 30, "{} attempts in an hour", before.len());
        assert_eq!(in_state(&database, "sent").await, 0);

        is_up.store(true, Ordering::SeqCst);
        let up_since = clock.now().timestamp();
        while lane.step().await.expect("steps").claimed > 0 {}
        assert_eq!(in_state(&database, "sent").await, 15);
        let all = sink.received();
        let arrived = &all[before.len()..];
        for of in ["a", "b", "c"] {
            let order: Vec<_> = arrived.iter().map(|r| r.text()).filter(|text| text.starts_with(of)).collect();
            let expected: Vec<_> = (1..=5).map(|n| format!("{of}{n}")).collect();
            assert_eq!(order, expected);
        }
        let mut ids: HashMap<String, &str> = HashMap::new();
        for request in &all {
            assert_eq!(*ids.entry(request.text()).or_insert(request.id()), request.id(), "one id for ever");
            let timestamp = request.header("webhook-timestamp");
            let expected = signing::standard_webhooks(SECRET, request.id(), timestamp, &request.body);
            assert_eq!(request.header("webhook-signature"), expected);
        }
        for request in arrived {
            let signed: i64 = request.header("webhook-timestamp").parse().expect("seconds");
            assert!((up_since..=clock.now().timestamp()).contains(&signed), "signed {signed}, up since {up_since}");
        }
        let first: i64 = before[0].header("webhook-timestamp").parse().expect("seconds");
        assert!(up_since - first > TOLERANCE_SECONDS, "the first signature would be refused by now");
        let attempts = database.number(&format!("SELECT count(*) FROM {}", table(backend, "outbox_attempts"))).await;
        assert_eq!(attempts, i64::try_from(before.len()).expect("few"));
    }
}
