//! A guarded body takes effect under one id, in the transaction of its event.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hooklatch::clock::Clock;
use hooklatch::envelope::{Locator, Locators};
use hooklatch::event::Delivery;
use hooklatch::inbox::outcome::{Answer, Outcome};
use hooklatch::inbox::{Inbox, InboxOptions};
use hooklatch::source::ReplayGuard;
use hooklatch::store::{DeadLetter, DeadLetterFilter, Dialect, Prunable, Store};
use hooklatch::telemetry::metrics::Metrics;

use super::fixture::{Database, HOUR, TWO_HOURS, WINDOWS, delivery, event, source, sql};

const INSERT: &str = "INSERT INTO orders (id, amount) SELECT id, 1 FROM event";

/// Enough to meet in one batch and in several.
const CAPTURES: usize = 24;

async fn orders(dialect: Dialect) -> Database {
    let db = Database::new(dialect).await;
    db.execute("CREATE TABLE orders (id TEXT NOT NULL, amount bigint CHECK (amount > 0))").await;
    db
}

fn inbox(store: Arc<dyn Store>) -> Inbox {
    let options = InboxOptions {
        hints: Default::default(),
        writers: 2,
        max_batch: 16,
        queue: 64,
        inflight_wait: Duration::from_secs(5),
        deadline: Duration::from_secs(20),
        handler_timeout: Duration::from_secs(10),
        windows: WINDOWS,
    };
    Inbox::start(store, options, Clock::system(), Arc::new(Metrics::new()))
}

/// A delivery of this body under these ids, to a source that guards.
fn guarded(handler: &str, ids: &[&str], body: &'static str) -> Delivery {
    let mut source = source(vec![sql(handler)]);
    source.replay_guard = ReplayGuard::Body;
    let mut delivery = delivery(Vec::new(), ids.iter().map(|id| event(id, "{}")).collect());
    delivery.events.iter_mut().for_each(|event| event.occurred_at = None);
    delivery.request.body = Bytes::from_static(body.as_bytes());
    delivery.guard = source.guard(&delivery.request.body, &delivery.events);
    delivery.source = Arc::new(source);
    delivery
}

async fn send(inbox: &Inbox, id: &str, body: &'static str) -> Answer {
    inbox.submit(guarded(INSERT, &[id], body)).await
}

async fn letters(db: &Database) -> Vec<DeadLetter> {
    let filter = DeadLetterFilter { limit: 9, ..DeadLetterFilter::default() };
    db.store().dead_letters(&filter).await.expect("reads")
}

async fn applied(db: &Database) -> Vec<String> {
    db.texts("SELECT id FROM orders ORDER BY id").await
}

pub(super) async fn a_body_takes_effect_under_one_id(dialect: Dialect) {
    let db = orders(dialect).await;
    let inbox = inbox(db.shared());
    assert_eq!(send(&inbox, "1", "{}").await.outcome, Outcome::Applied);
    let again = send(&inbox, "2", "{}").await;
    assert_eq!((again.outcome, again.reply.status), (Outcome::Duplicate, 200));
    assert!(again.reason.is_some_and(|reason| reason.contains("replay_guard")));
    assert_eq!(send(&inbox, "1", "{}").await.outcome, Outcome::Replayed, "a genuine retry");
    assert_eq!(send(&inbox, "1", "{ }").await.outcome, Outcome::Replayed, "a retry whose body changed");
    assert_eq!(send(&inbox, "3", "{ }").await.outcome, Outcome::Duplicate, "that body was verified too");
    assert_eq!(send(&inbox, "4", "[]").await.outcome, Outcome::Applied);
    assert_eq!(inbox.submit(guarded(INSERT, &["5", "6"], "[]")).await.outcome, Outcome::Duplicate);
    assert_eq!(applied(&db).await, ["1", "4"]);
    // The second id is free: nothing was noted under it.
    assert_eq!(send(&inbox, "2", "[1]").await.outcome, Outcome::Applied);
}

pub(super) async fn a_body_whose_event_failed_may_come_again_under_any_id(dialect: Dialect) {
    let db = orders(dialect).await;
    let inbox = inbox(db.shared());
    let refuse = "INSERT INTO orders (id, amount) SELECT id, -1 FROM event";
    assert_eq!(inbox.submit(guarded(refuse, &["1"], "{}")).await.outcome, Outcome::Rejected);
    let absent = "INSERT INTO nowhere SELECT id FROM event";
    assert_eq!(inbox.submit(guarded(absent, &["1"], "[]")).await.outcome, Outcome::Replayed);
    assert_eq!(inbox.submit(guarded(absent, &["2"], "[]")).await.outcome, Outcome::Unavailable);
    assert_eq!(send(&inbox, "3", "[]").await.outcome, Outcome::Applied);
    assert_eq!(send(&inbox, "4", "{}").await.outcome, Outcome::Applied);
    // The first is not applied by an operator either: its body has taken effect.
    let mut letter = letters(&db).await.pop().expect("a dead letter");
    let mut source = source(vec![sql(INSERT)]);
    source.replay_guard = ReplayGuard::Body;
    let place = Locator::parse("header:x-id").expect("a place");
    source.envelope.event_id = Locators::new(vec![place]).expect("places");
    letter.headers.push("x-id", "1");
    let retried = inbox.retry(letter, Some(Arc::new(source))).await.expect("it can be read");
    assert_eq!(retried.outcome, Outcome::Duplicate);
    assert!(letters(&db).await.is_empty());
    assert_eq!(applied(&db).await, ["3", "4"]);
}

pub(super) async fn a_body_is_remembered_as_long_as_an_event(dialect: Dialect) {
    let db = orders(dialect).await;
    let inbox = inbox(db.shared());
    send(&inbox, "1", "{}").await;
    db.pass(HOUR / 2).await;
    assert_eq!(send(&inbox, "2", "{}").await.outcome, Outcome::Duplicate);
    db.pass(HOUR).await;
    assert_eq!(send(&inbox, "2", "{}").await.outcome, Outcome::Applied, "expired, though not pruned");
    db.pass(TWO_HOURS).await;
    let pruned = db.store().prune(Prunable::ProcessedEvents, HOUR, 100).await.expect("prunes");
    assert_eq!(pruned, 3, "two events and the body");
}

pub(super) async fn of_many_that_bring_one_body_at_once_one_takes_effect(dialect: Dialect) {
    let db = orders(dialect).await;
    let inboxes = [inbox(db.shared()), inbox(db.another().await)];
    let mut sent = Vec::new();
    for n in 0..CAPTURES {
        let inbox = inboxes[n % 2].clone();
        sent.push(tokio::spawn(async move { send(&inbox, &format!("id-{n}"), "{}").await.outcome }));
    }
    let mut outcomes = Vec::new();
    for outcome in sent {
        outcomes.push(outcome.await.expect("does not panic"));
    }
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    assert_eq!((count(Outcome::Applied), count(Outcome::Duplicate)), (1, CAPTURES - 1), "{outcomes:?}");
    assert_eq!(applied(&db).await.len(), 1);
}

pub(super) async fn whoever_waits_behind_a_body_that_fails_comes_again(dialect: Dialect) {
    let db = orders(dialect).await;
    let inbox = inbox(db.shared());
    let refuse = "INSERT INTO orders (id, amount) SELECT id, -1 FROM event";
    let mut sent = Vec::new();
    for n in 0..CAPTURES {
        let inbox = inbox.clone();
        let delivery = guarded(refuse, &[&format!("id-{n}")], "{}");
        sent.push(tokio::spawn(async move { inbox.submit(delivery).await.outcome }));
    }
    for outcome in sent {
        let outcome = outcome.await.expect("does not panic");
        assert!(matches!(outcome, Outcome::Rejected | Outcome::Unavailable), "{outcome:?}");
    }
    assert!(applied(&db).await.is_empty());
    assert_eq!(send(&inbox, "last", "{}").await.outcome, Outcome::Applied);
}
