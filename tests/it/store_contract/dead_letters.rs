//! Dead letters: kept whole, found, replaced, removed.

use bytes::Bytes;
use hooklatch::clock::{self, Clock};
use hooklatch::event::Delivery;
use hooklatch::raw_headers::RawHeaders;
use hooklatch::store::{DeadLetter, DeadLetterFilter, DeathCause, Dialect, NewDeadLetter};
use uuid::Uuid;

use super::fixture::{Database, fresh, key, plain};

/// Larger than one page, and than what a protocol buffers.
const BIG: usize = 3 * 1024 * 1024;

async fn bury(db: &Database, delivery: &Delivery, cause: DeathCause, reason: &str) -> Vec<Uuid> {
    let letters: Vec<_> = fresh(delivery)
        .into_iter()
        .map(|fresh| NewDeadLetter { id: clock::new_id(), fresh, cause, reason })
        .collect();
    let mut batch = db.begin().await;
    batch.bury(&letters).await.expect("buries");
    batch.commit().await.expect("commits");
    letters.iter().map(|letter| letter.id).collect()
}

async fn read(db: &Database, filter: DeadLetterFilter) -> Vec<DeadLetter> {
    db.store().dead_letters(&filter).await.expect("reads")
}

fn all() -> DeadLetterFilter {
    DeadLetterFilter { limit: 100, ..DeadLetterFilter::default() }
}

pub(super) async fn a_dead_letter_comes_back_byte_for_byte(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let mut delivery = plain(&["a"]);
    let every: Vec<u8> = (0..=255).collect();
    delivery.request.headers = RawHeaders::from_iter([
        ("x-signature", &b"\xff\xfe \"'\\\t\xc3\xa9"[..]),
        ("x-twice", b"1"),
        ("x-twice", b""),
    ]);
    delivery.request.target = "/hooks/shop?a=%00&b='".into();
    delivery.request.body = every.iter().copied().cycle().take(BIG).collect::<Vec<u8>>().into();
    let before = Clock::system().now();
    let ids = bury(&db, &delivery, DeathCause::Rejected, "UNIQUE failed: \"orders\".id").await;

    let letters = read(&db, all()).await;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.id, &letter.key), (ids[0], &key("a")));
    assert_eq!((letter.source.as_str(), letter.event_type.as_str()), ("shop", "order_created"));
    assert_eq!((letter.cause, letter.attempts), (DeathCause::Rejected, 1));
    assert_eq!(letter.reason, "UNIQUE failed: \"orders\".id");
    assert_eq!(letter.target, &*delivery.request.target);
    assert_eq!(letter.headers, delivery.request.headers);
    assert!(letter.body == delivery.request.body, "the body is the one that was sent");
    assert_eq!(letter.received_at.timestamp_micros(), delivery.received_at.timestamp_micros());
    assert!((letter.died_at - before).abs() < chrono::TimeDelta::seconds(10));
}

pub(super) async fn a_second_failure_replaces_the_first_and_counts(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let mut delivery = plain(&["a", "b"]);
    let first = bury(&db, &delivery, DeathCause::Rejected, "first").await;
    delivery.request.body = Bytes::from_static(b"second body");
    bury(&db, &delivery, DeathCause::Failed, "second").await;
    delivery.events.truncate(1);
    bury(&db, &delivery, DeathCause::TooOld, "third").await;

    let letters = read(&db, all()).await;
    let told: Vec<_> =
        letters.iter().map(|l| (l.id, l.cause, l.reason.as_str(), l.attempts, &l.body[..])).collect();
    assert_eq!(
        told,
        [
            (first[0], DeathCause::TooOld, "third", 3, &b"second body"[..]),
            (first[1], DeathCause::Failed, "second", 2, &b"second body"[..]),
        ]
    );
}

pub(super) async fn dead_letters_are_found_and_paged(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let ids: Vec<String> = (0..25).map(|n| format!("{n:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let buried = bury(&db, &plain(&ids), DeathCause::Rejected, "r").await;

    let mut seen = Vec::new();
    let mut filter = DeadLetterFilter { source: Some("shop".into()), limit: 10, ..all() };
    loop {
        let page = read(&db, filter.clone()).await;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 10);
        filter.after = Some(last.id);
        seen.extend(page.iter().map(|letter| letter.id));
    }
    assert_eq!(seen, buried, "oldest first, each once");

    let one = |filter| async { read(&db, filter).await.into_iter().map(|l| l.id).collect::<Vec<_>>() };
    assert_eq!(one(DeadLetterFilter { event_id: Some("07".into()), ..all() }).await, [buried[7]]);
    assert_eq!(one(DeadLetterFilter { id: Some(buried[3]), ..all() }).await, [buried[3]]);
    assert!(one(DeadLetterFilter { source: Some("crm".into()), ..all() }).await.is_empty());
    assert!(one(DeadLetterFilter { id: Some(clock::new_id()), ..all() }).await.is_empty());
}

pub(super) async fn exhumed_and_discarded_letters_are_gone(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let buried = bury(&db, &plain(&["a", "b", "c"]), DeathCause::Rejected, "r").await;
    let mut batch = db.begin().await;
    batch.exhume(&[&key("a"), &key("nowhere")]).await.expect("exhumes");
    batch.commit().await.expect("commits");
    let discarded = db.store().discard_dead_letters(&[buried[0], buried[1]]).await.expect("discards");
    assert_eq!(discarded, 1, "one of them was exhumed before");
    let left: Vec<_> = read(&db, all()).await.into_iter().map(|letter| letter.id).collect();
    assert_eq!(left, [buried[2]]);
}
