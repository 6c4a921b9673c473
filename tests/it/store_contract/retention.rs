//! Pruning: what is old, in batches, and nothing else.

use std::time::Duration;

use hooklatch::clock::Clock;
use hooklatch::event::IdempotencyKey;
use hooklatch::store::{DeathCause, Dialect, KeyRef, LedgerEntry, NewDeadLetter, NewKey, Prunable};
use uuid::{NoContext, Timestamp, Uuid};

use super::fixture::{Database, HOUR, TWO_HOURS, fingerprint, fresh, new_events, plain};
use super::ledger::entry;

pub(super) async fn pruning_takes_what_is_old_in_batches(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let old: Vec<String> = (0..25).map(|n| format!("old {n:02}")).collect();
    db.receive(&old.iter().map(String::as_str).collect::<Vec<_>>()).await;
    db.pass(TWO_HOURS).await;
    db.receive(&["young"]).await;

    let store = db.store();
    let what = Prunable::ProcessedEvents;
    assert_eq!(store.count_prunable(what, HOUR).await.expect("counts"), 25);
    let mut batches = Vec::new();
    for _ in 0..4 {
        batches.push(store.prune(what, HOUR, 10).await.expect("prunes"));
    }
    assert_eq!(batches, [10, 10, 5, 0]);
    assert_eq!(store.count_prunable(what, HOUR).await.expect("counts"), 0);
    assert_eq!(db.receive(&["old 00", "old 24", "young"]).await, [true, true, false]);
}

pub(super) async fn nothing_that_still_counts_is_pruned(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.receive(&["a"]).await;
    db.store().record_deliveries(&[entry("a")]).await.expect("records");
    // The longest that can be configured reaches back before 1970, where times are negative.
    for what in Prunable::ALL {
        for keep in [HOUR, HOUR * 24 * 365 * 100, Duration::MAX] {
            assert_eq!(db.store().count_prunable(what, keep).await.expect("counts"), 0);
            assert_eq!(db.store().prune(what, keep, 10).await.expect("prunes"), 0);
        }
    }
    assert_eq!(db.receive(&["a"]).await, [false]);
}

pub(super) async fn every_table_can_be_pruned(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a"]);
    let key = IdempotencyKey::new_unchecked("k");
    let key = KeyRef { source: "shop", key: &key };
    let reply = hooklatch::reply::Reply { status: 200, headers: Vec::new(), body: bytes::Bytes::new() };
    let letter = NewDeadLetter {
        id: delivery.id,
        fresh: fresh(&delivery)[0],
        cause: DeathCause::Rejected,
        reason: "r",
    };
    let mut batch = db.begin().await;
    batch.insert_events(&new_events(&delivery)).await.expect("inserts");
    batch.insert_keys(&[NewKey { key, fingerprint: fingerprint(1) }]).await.expect("inserts");
    batch.settle_keys(&[(key, &reply)]).await.expect("settles");
    batch.bury(&[letter]).await.expect("buries");
    batch.commit().await.expect("commits");
    let old = Clock::system().now() - TWO_HOURS;
    let id = Uuid::new_v7(Timestamp::from_unix(NoContext, old.timestamp().unsigned_abs(), 0));
    let entries = [LedgerEntry { delivery_id: id, received_at: old, ..entry("old") }, entry("young")];
    db.store().record_deliveries(&entries).await.expect("records");
    let now = db.sql("now()", "CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)");
    let outbox = db.sql("hooklatch.outbox", "outbox");
    db.execute(&format!(
        "INSERT INTO {outbox} (destination, payload, state, sent_at) VALUES ('crm', '{{}}', 'sent', {now})"
    ))
    .await;

    db.pass(TWO_HOURS).await;
    for what in Prunable::ALL {
        assert_eq!(db.store().count_prunable(what, HOUR).await.expect("counts"), 1, "{what:?}");
        assert_eq!(db.store().prune(what, HOUR, 10).await.expect("prunes"), 1, "{what:?}");
        assert_eq!(db.store().prune(what, HOUR, 10).await.expect("prunes"), 0, "{what:?}");
    }
}
