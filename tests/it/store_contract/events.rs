//! Event keys: new once, read back, removed, revised.

use std::time::Duration;

use bytes::Bytes;
use hooklatch::clock::Clock;
use hooklatch::event::EventKey;
use hooklatch::inbox::outcome::EventState;
use hooklatch::reply::Reply;
use hooklatch::store::{Age, Dialect, NewEvent, Revision, Windows};

use super::fixture::{
    Database, HOUR, TWO_HOURS, WINDOWS, event, fingerprint, key, keys, new_event, new_events, plain,
};

pub(super) async fn equal_keys_insert_once(dialect: Dialect) {
    let db = Database::new(dialect).await;
    assert_eq!(db.receive(&["a", "b"]).await, [true, true]);
    assert_eq!(db.receive(&["a", "c"]).await, [false, true]);
    assert_eq!(db.receive(&["a", "b", "c", "d"]).await, [false, false, false, true]);
    assert_eq!(db.receive(&["a", "b", "c", "d"]).await, [false; 4]);
}

pub(super) async fn one_id_in_two_consumers_is_two_events(dialect: Dialect) {
    let db = Database::new(dialect).await;
    assert_eq!(db.receive(&["a"]).await, [true]);
    let mut other = event("a", "{}");
    other.key.consumer = "crm".into();
    let mut batch = db.begin().await;
    assert_eq!(batch.insert_events(&[new_event(&other)]).await.expect("inserts"), [true]);
}

pub(super) async fn ids_that_differ_only_in_case_or_length_are_two_events(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let long = "é".repeat(512);
    let longer = format!("{}x", "é".repeat(511));
    let ids = ["A", "a", "a ", " a", "1", "01", "1.0", "'; DROP TABLE x; --", "{\"a\":1}", &longer, &long];
    assert_eq!(db.receive(&ids).await, vec![true; ids.len()]);
    assert_eq!(db.receive(&ids).await, vec![false; ids.len()]);
    // The same, as text: nothing was turned into a number on the way.
    let delivery = plain(&ids);
    let mut batch = db.begin().await;
    let stored = batch.stored_events(&keys(&delivery), WINDOWS).await.expect("reads");
    assert!(stored.iter().all(Option::is_some));
}

pub(super) async fn every_column_comes_back(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let event = event("a", "{}");
    let new = NewEvent {
        event: &event,
        source: "shop-2",
        state: EventState::Ignored,
        status: 202,
        fingerprint: Some(fingerprint(0xfe)),
    };
    let mut batch = db.begin().await;
    assert_eq!(batch.insert_events(&[new]).await.expect("inserts"), [true]);
    batch.commit().await.expect("commits");

    let mut batch = db.begin().await;
    let stored = batch.stored_events(&[&event.key], WINDOWS).await.expect("reads");
    let stored = stored[0].as_ref().expect("there");
    assert_eq!(&*stored.source, "shop-2");
    assert_eq!(stored.state, EventState::Ignored);
    assert_eq!(stored.status, 202);
    assert_eq!(stored.fingerprint, Some(fingerprint(0xfe)));
    assert_eq!(stored.reply, None);
    assert_eq!(stored.age, Age::AnswerLive);
}

pub(super) async fn what_is_not_there_reads_as_none(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.receive(&["b"]).await;
    let mut batch = db.begin().await;
    let delivery = plain(&["a", "b", "c"]);
    let stored = batch.stored_events(&keys(&delivery), WINDOWS).await.expect("reads");
    let there: Vec<bool> = stored.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, false], "in the order they were asked for");
}

pub(super) async fn a_row_ages_from_live_to_expired(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.receive(&["a"]).await;
    let delivery = plain(&["a"]);
    let age = async |windows| {
        let mut batch = db.begin().await;
        let stored = batch.stored_events(&keys(&delivery), windows).await.expect("reads");
        stored[0].as_ref().expect("an expired row is still read").age
    };
    assert_eq!(age(WINDOWS).await, Age::AnswerLive);
    db.pass(HOUR).await;
    assert_eq!(age(Windows { events: TWO_HOURS, answers: TWO_HOURS }).await, Age::AnswerLive);
    assert_eq!(age(Windows { events: TWO_HOURS, answers: HOUR }).await, Age::EventLive);
    assert_eq!(age(Windows { events: HOUR, answers: HOUR }).await, Age::Expired);
    assert_eq!(age(Windows { events: Duration::MAX, answers: HOUR }).await, Age::EventLive);
}

pub(super) async fn only_rows_that_do_not_count_are_removed(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.receive(&["old", "old too"]).await;
    db.pass(TWO_HOURS).await;
    let (rejected, young) = (event("rejected", "{}"), event("young", "{}"));
    let new =
        [NewEvent { state: EventState::Rejected, status: 422, ..new_event(&rejected) }, new_event(&young)];
    let mut batch = db.begin().await;
    batch.insert_events(&new).await.expect("inserts");
    batch.commit().await.expect("commits");

    let mut batch = db.begin().await;
    let (old, rejected, young) = (key("old"), key("rejected"), key("young"));
    batch.remove_events(&[&old, &rejected, &young], WINDOWS).await.expect("removes");
    batch.commit().await.expect("commits");
    assert_eq!(db.receive(&["old", "old too", "rejected", "young"]).await, [true, false, true, false]);
}

pub(super) async fn a_removed_key_is_new_again_in_the_same_transaction(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.receive(&["a"]).await;
    db.pass(TWO_HOURS).await;
    let delivery = plain(&["a"]);
    let mut batch = db.begin().await;
    assert_eq!(batch.insert_events(&new_events(&delivery)).await.expect("inserts"), [false]);
    batch.remove_events(&keys(&delivery), WINDOWS).await.expect("removes");
    assert!(batch.stored_events(&keys(&delivery), WINDOWS).await.expect("reads")[0].is_none());
    assert_eq!(batch.insert_events(&new_events(&delivery)).await.expect("inserts"), [true]);
    batch.commit().await.expect("commits");
    assert_eq!(db.receive(&["a"]).await, [false]);
}

pub(super) async fn forgotten_rows_are_gone(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a", "b"]);
    let mut batch = db.begin().await;
    batch.insert_events(&new_events(&delivery)).await.expect("inserts");
    batch.forget_events(&[&key("b")]).await.expect("forgets");
    batch.commit().await.expect("commits");
    assert_eq!(db.receive(&["a", "b"]).await, [false, true]);
}

pub(super) async fn a_revised_row_says_so(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a", "b", "c", "d"]);
    // No text in any encoding, with quotes and a zero byte.
    let body = Bytes::from_static(b"\x00\xff'\"\\{\r\n");
    let headers = vec![("x-a".into(), "\"1\", 'é'".into()), ("x-a".into(), "".into())];
    let reply = Reply { status: 201, headers, body };
    let empty = Reply { status: 204, headers: Vec::new(), body: Bytes::new() };
    let (a, b, c, d) = (key("a"), key("b"), key("c"), key("d"));
    let mut batch = db.begin().await;
    batch.insert_events(&new_events(&delivery)).await.expect("inserts");
    let revisions = [
        Revision { key: &a, state: EventState::Applied, status: 201, reply: Some(reply.clone()) },
        Revision { key: &b, state: EventState::Rejected, status: 422, reply: None },
        Revision { key: &c, state: EventState::Applied, status: 204, reply: Some(empty.clone()) },
    ];
    batch.revise_events(&revisions).await.expect("revises");
    batch.commit().await.expect("commits");

    let mut batch = db.begin().await;
    let stored: Vec<_> = batch
        .stored_events(&[&a, &b, &c, &d], WINDOWS)
        .await
        .expect("reads")
        .into_iter()
        .map(|stored| stored.expect("there"))
        .map(|stored| (stored.state, stored.status, stored.reply))
        .collect();
    assert_eq!(
        stored,
        [
            (EventState::Applied, 201, Some(reply)),
            (EventState::Rejected, 422, None),
            (EventState::Applied, 204, Some(empty)),
            (EventState::Applied, 200, None),
        ]
    );
}

pub(super) async fn a_dropped_batch_leaves_nothing(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a"]);
    let mut batch = db.begin().await;
    assert_eq!(batch.insert_events(&new_events(&delivery)).await.expect("inserts"), [true]);
    drop(batch);
    assert_eq!(db.receive(&["a"]).await, [true]);
}

pub(super) async fn the_database_is_asked_for_nothing_when_there_is_nothing(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let mut batch = db.begin().await;
    assert!(batch.insert_events(&[]).await.expect("inserts").is_empty());
    assert!(batch.stored_events(&[], WINDOWS).await.expect("reads").is_empty());
    batch.remove_events(&[], WINDOWS).await.expect("removes");
    batch.forget_events(&[]).await.expect("forgets");
    batch.revise_events(&[]).await.expect("revises");
    assert!(batch.insert_keys(&[]).await.expect("inserts").is_empty());
    assert!(batch.stored_keys(&[], WINDOWS).await.expect("reads").is_empty());
    batch.remove_keys(&[], WINDOWS).await.expect("removes");
    batch.forget_keys(&[]).await.expect("forgets");
    batch.settle_keys(&[]).await.expect("settles");
    assert!(batch.entity_sequences(&[]).await.expect("reads").is_empty());
    assert!(batch.advance_entities(&[]).await.expect("advances"));
    batch.bury(&[]).await.expect("buries");
    batch.exhume(&[]).await.expect("exhumes");
    batch.commit().await.expect("commits");
    db.store().record_deliveries(&[]).await.expect("records");
    assert_eq!(db.store().discard_dead_letters(&[]).await.expect("discards"), 0);
    assert!(db.store().events(&[], "a").await.expect("reads").is_empty());
}

pub(super) async fn an_operator_sees_and_forgets_an_event(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let before = Clock::system().now();
    db.receive(&["a", "b"]).await;
    let consumers = ["crm".to_owned(), "shop".to_owned()];
    let seen = db.store().events(&consumers, "a").await.expect("reads");
    assert_eq!(seen.len(), 1);
    let record = &seen[0];
    assert_eq!((&record.key, record.source.as_str()), (&key("a"), "shop"));
    assert_eq!(record.event_type, "order_created");
    assert_eq!((record.state, record.status), (EventState::Applied, 200));
    assert_eq!(record.occurred_at, event("a", "{}").occurred_at);
    let age = record.processed_at - before;
    assert!(age.abs() < chrono::TimeDelta::seconds(10), "{age}");
    assert!(db.store().events(&["crm".to_owned()], "a").await.expect("reads").is_empty());

    let stranger = EventKey { consumer: "crm".into(), event_id: "a".into() };
    assert!(!db.store().forget_event(&stranger).await.expect("asks"));
    assert!(db.store().forget_event(&key("a")).await.expect("forgets"));
    assert!(!db.store().forget_event(&key("a")).await.expect("asks"));
    assert_eq!(db.receive(&["a", "b"]).await, [true, false]);
    db.store().inbox_rows().await.expect("counts");
}

pub(super) async fn the_clock_is_the_databases(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let mut batch = db.begin().await;
    let first = batch.now().await.expect("tells");
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(batch.now().await.expect("tells"), first, "a transaction has one time");
    let now = db.store().now().await.expect("tells");
    assert!(now > first, "the store's time goes on");
    assert!((now - first) < chrono::TimeDelta::seconds(10));
}
