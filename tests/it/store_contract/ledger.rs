//! The ledger: lines as written, filtered, paged.

use std::time::Duration;

use hooklatch::clock::{self, Clock};
use hooklatch::inbox::outcome::Outcome;
use hooklatch::store::{Dialect, LedgerEntry, LedgerFilter};

use super::fixture::Database;

/// A line about one event of a delivery of its own.
pub(super) fn entry(event_id: &str) -> LedgerEntry {
    LedgerEntry {
        delivery_id: clock::new_id(),
        ordinal: 0,
        received_at: Clock::system().now(),
        source: "shop".into(),
        event_id: Some(event_id.into()),
        event_type: Some("order_created".into()),
        idempotency_key: None,
        outcome: Outcome::Applied,
        status: 200,
        duration: Duration::from_micros(1234),
        body_bytes: 17,
        peer: None,
        reason: None,
        headers: Vec::new(),
    }
}

fn all() -> LedgerFilter {
    LedgerFilter { limit: 100, ..LedgerFilter::default() }
}

async fn read(db: &Database, filter: &LedgerFilter) -> Vec<LedgerEntry> {
    db.store().deliveries(filter).await.expect("reads")
}

fn event_id(line: &LedgerEntry) -> String {
    line.event_id.as_deref().unwrap_or_default().to_owned()
}

async fn ids(db: &Database, filter: &LedgerFilter) -> Vec<String> {
    read(db, filter).await.iter().map(event_id).collect()
}

pub(super) async fn a_line_comes_back_as_it_was_written(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let full = LedgerEntry {
        idempotency_key: Some("k\"'\\".into()),
        peer: Some("[::1]:80".into()),
        reason: Some("signature: 'é' \"\n".into()),
        body_bytes: u32::MAX,
        duration: Duration::from_secs(86_400),
        ..entry("1")
    };
    let bare = LedgerEntry {
        event_id: None,
        event_type: None,
        outcome: Outcome::Malformed,
        headers: vec![("x-a".into(), "é\u{fffd}\"\\".into()), ("x-a".into(), String::new())],
        status: 400,
        ..entry("")
    };
    db.store().record_deliveries(&[full.clone(), bare.clone()]).await.expect("records");
    let lines = read(&db, &all()).await;
    assert_eq!(lines.len(), 2);
    for (line, written) in lines.iter().zip([bare, full]) {
        let micros = |time: chrono::DateTime<chrono::Utc>| time.timestamp_micros();
        assert_eq!(micros(line.received_at), micros(written.received_at));
        let written = LedgerEntry { received_at: line.received_at, ..written };
        assert_eq!(format!("{line:?}"), format!("{written:?}"));
    }
}

pub(super) async fn the_ledger_is_filtered(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let first = entry("a");
    tokio::time::sleep(Duration::from_millis(2)).await;
    let since = Clock::system().now();
    let others = [
        LedgerEntry { outcome: Outcome::Replayed, ..entry("a") },
        LedgerEntry { source: "crm".into(), ..entry("b") },
        LedgerEntry { outcome: Outcome::Replayed, source: "crm".into(), ..entry("c") },
    ];
    db.store().record_deliveries(&[first]).await.expect("records");
    db.store().record_deliveries(&others).await.expect("records");
    assert_eq!(ids(&db, &all()).await, ["c", "b", "a", "a"], "newest first");
    let crm = LedgerFilter { source: Some("crm".into()), ..all() };
    assert_eq!(ids(&db, &crm).await, ["c", "b"]);
    let replayed = LedgerFilter { outcomes: vec![Outcome::Replayed], ..all() };
    assert_eq!(ids(&db, &replayed).await, ["c", "a"]);
    let two = LedgerFilter { outcomes: vec![Outcome::Replayed, Outcome::Applied], ..crm.clone() };
    assert_eq!(ids(&db, &two).await, ["c", "b"]);
    let a = LedgerFilter { event_id: Some("a".into()), ..all() };
    assert_eq!(ids(&db, &a).await, ["a", "a"]);
    let late = LedgerFilter { since: Some(since), ..a };
    assert_eq!(ids(&db, &late).await, ["a"]);
    let none = LedgerFilter { source: Some("crm".into()), ..late };
    assert!(ids(&db, &none).await.is_empty());
}

pub(super) async fn pages_lose_no_line(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let mut written = Vec::new();
    for delivery in 0..7 {
        let first = entry("");
        // A page of three ends in the middle of some of these.
        for ordinal in 0..=(delivery % 4) {
            let event_id = Some(format!("{delivery}-{ordinal}").into());
            written.push(LedgerEntry { ordinal, event_id, ..first.clone() });
        }
    }
    db.store().record_deliveries(&written).await.expect("records");

    for wanted in [None, Some("5-1".to_owned())] {
        let mut seen = Vec::new();
        let mut filter = LedgerFilter { event_id: wanted.clone(), limit: 3, ..LedgerFilter::default() };
        loop {
            let page = read(&db, &filter).await;
            let Some(last) = page.last() else { break };
            filter.before = Some(last.delivery_id);
            seen.extend(page.iter().map(event_id));
            assert!(seen.len() <= written.len(), "no line twice");
        }
        seen.sort();
        let mut expected: Vec<_> = written.iter().map(event_id).collect();
        expected.retain(|id| wanted.as_ref().is_none_or(|wanted| wanted == id));
        assert_eq!(seen, expected);
    }
}

pub(super) async fn lines_written_twice_stand_once(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let lines = [entry("a"), entry("b")];
    db.store().record_deliveries(&lines).await.expect("records");
    // As after a commit whose acknowledgement was lost.
    db.store().record_deliveries(&lines).await.expect("records");
    assert_eq!(ids(&db, &all()).await, ["b", "a"]);
}

pub(super) async fn an_event_that_is_repeated_without_end_is_read_page_by_page(dialect: Dialect) {
    const REPETITIONS: usize = 20_000;
    let db = Database::new(dialect).await;
    let mut lines = vec![entry("before")];
    lines.extend((0..REPETITIONS).map(|_| entry("ping")));
    lines.push(entry("after"));
    for some in lines.chunks(2_000) {
        db.store().record_deliveries(some).await.expect("records");
    }
    let newest: Vec<_> = lines.iter().rev().filter(|line| event_id(line) == "ping").take(20).collect();
    let mut filter = LedgerFilter { event_id: Some("ping".into()), limit: 10, ..LedgerFilter::default() };
    for expected in newest.chunks(10) {
        let page = read(&db, &filter).await;
        let ids = |lines: &[&LedgerEntry]| lines.iter().map(|line| line.delivery_id).collect::<Vec<_>>();
        assert_eq!(ids(&page.iter().collect::<Vec<_>>()), ids(expected));
        filter.before = page.last().map(|line| line.delivery_id);
    }
    if db.is_postgres() {
        // A hash index walks all that equals a line before it takes it.
        let others = "SELECT relname FROM pg_class JOIN pg_am ON pg_am.oid = relam \
                      WHERE relnamespace = 'hooklatch'::regnamespace AND relkind = 'i' AND amname <> 'btree'";
        assert!(db.texts(others).await.is_empty());
    }
}
