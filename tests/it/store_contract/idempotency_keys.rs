//! Explicit idempotency keys and the answers under them.

use std::time::Duration;

use bytes::Bytes;
use hooklatch::event::IdempotencyKey;
use hooklatch::reply::Reply;
use hooklatch::store::{Dialect, KeyRef, NewKey, Windows};

use super::fixture::{Database, HOUR, WINDOWS, fingerprint};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new_unchecked(text)
}

fn reply(body: &'static [u8]) -> Reply {
    Reply {
        status: 201,
        headers: vec![("content-type".into(), "text/plain".into()), ("x-a".into(), "\"".into())],
        body: Bytes::from_static(body),
    }
}

/// Inserts and settles keys of the source `shop` in a transaction of their own.
async fn settle(db: &Database, keys: &[&IdempotencyKey]) -> Vec<bool> {
    let mut batch = db.begin().await;
    let refs: Vec<_> = keys.iter().map(|key| KeyRef { source: "shop", key }).collect();
    let new: Vec<_> = refs.iter().map(|&key| NewKey { key, fingerprint: fingerprint(7) }).collect();
    let inserted = batch.insert_keys(&new).await.expect("inserts");
    let reply = reply(b"ok");
    let answers: Vec<_> =
        refs.iter().zip(&inserted).filter(|(_, fresh)| **fresh).map(|(&key, _)| (key, &reply)).collect();
    batch.settle_keys(&answers).await.expect("settles");
    batch.commit().await.expect("commits");
    inserted
}

pub(super) async fn a_key_is_scoped_to_its_source(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let k = key("k");
    assert_eq!(settle(&db, &[&k]).await, [true]);
    assert_eq!(settle(&db, &[&k]).await, [false]);
    let mut batch = db.begin().await;
    let elsewhere = KeyRef { source: "crm", key: &k };
    assert_eq!(batch.stored_keys(&[elsewhere], WINDOWS).await.expect("reads").iter().flatten().count(), 0);
    let new = NewKey { key: elsewhere, fingerprint: fingerprint(1) };
    assert_eq!(batch.insert_keys(&[new]).await.expect("inserts"), [true]);
}

pub(super) async fn a_settled_key_replays_byte_for_byte(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let (k, l, none) = (key("k"), key("l'\"\\"), key("none"));
    let replies = [reply(b"\x00\xff'\"\r\n"), Reply { status: 204, headers: vec![], body: Bytes::new() }];
    let refs = [&k, &l].map(|key| KeyRef { source: "shop", key });
    let mut batch = db.begin().await;
    let new = [(refs[0], 1), (refs[1], 2)].map(|(key, f)| NewKey { key, fingerprint: fingerprint(f) });
    assert_eq!(batch.insert_keys(&new).await.expect("inserts"), [true, true]);
    batch.settle_keys(&[(refs[0], &replies[0]), (refs[1], &replies[1])]).await.expect("settles");
    batch.commit().await.expect("commits");

    let mut batch = db.begin().await;
    let wanted = [refs[1], KeyRef { source: "shop", key: &none }, refs[0]];
    let stored = batch.stored_keys(&wanted, WINDOWS).await.expect("reads");
    let told: Vec<_> =
        stored.into_iter().map(|stored| stored.map(|s| (s.fingerprint, s.reply, s.live))).collect();
    let [first, second] = replies;
    assert_eq!(told, [Some((fingerprint(2), second, true)), None, Some((fingerprint(1), first, true))]);
}

pub(super) async fn an_expired_key_is_not_live_and_only_it_is_removed(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let windows = Windows { events: Duration::MAX, answers: HOUR };
    let (old, young) = (key("old"), key("young"));
    settle(&db, &[&old]).await;
    db.pass(HOUR).await;
    settle(&db, &[&young]).await;

    let refs = [&old, &young].map(|key| KeyRef { source: "shop", key });
    let mut batch = db.begin().await;
    let live: Vec<_> = batch
        .stored_keys(&refs, windows)
        .await
        .expect("reads")
        .into_iter()
        .map(|stored| stored.map(|stored| stored.live))
        .collect();
    assert_eq!(live, [Some(false), Some(true)]);
    batch.remove_keys(&refs, windows).await.expect("removes");
    batch.commit().await.expect("commits");
    assert_eq!(settle(&db, &[&old, &young]).await, [true, false]);
}

pub(super) async fn forgotten_keys_are_gone(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let (k, l) = (key("k"), key("l"));
    let refs = [&k, &l].map(|key| KeyRef { source: "shop", key });
    let reply = reply(b"ok");
    let mut batch = db.begin().await;
    let new = refs.map(|key| NewKey { key, fingerprint: fingerprint(1) });
    batch.insert_keys(&new).await.expect("inserts");
    batch.forget_keys(&refs[..1]).await.expect("forgets");
    batch.settle_keys(&[(refs[1], &reply)]).await.expect("settles");
    batch.commit().await.expect("commits");
    assert_eq!(settle(&db, &[&k, &l]).await, [true, false]);
}
