//! Migrations, and what a store says without them.

use std::error::Error;

use hooklatch::store::{Dialect, StoreErrorKind};

use super::fixture::{Database, LIMITS, new_events, plain};

pub(super) async fn of_several_stores_that_migrate_at_once_one_does(dialect: Dialect) {
    let db = Database::unmigrated(dialect).await;
    assert!(db.store().migrations().await.expect("tells").iter().all(|m| m.known && m.applied_at.is_none()));
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let store = db.another().await;
        tasks.push(tokio::spawn(async move { store.migrate().await }));
    }
    let mut ran = Vec::new();
    for task in tasks {
        ran.extend(task.await.expect("no panic").expect("migrates"));
    }
    let known = db.store().migrations().await.expect("tells");
    assert!(known.iter().all(|m| m.known && m.applied_at.is_some()), "{known:?}");
    assert_eq!(ran, known.into_iter().map(|m| m.name).collect::<Vec<_>>(), "each once, in order");
    assert!(db.store().migrate().await.expect("nothing to do").is_empty());
}

pub(super) async fn a_newer_schema_is_refused(dialect: Dialect) {
    let db = Database::new(dialect).await;
    db.execute(db.sql(
        "INSERT INTO hooklatch.schema_migrations (name, applied_at) VALUES ('9999_future', now())",
        "INSERT INTO schema_migrations (name, applied_at) VALUES ('9999_future', 0)",
    ))
    .await;
    let error = db.store().migrate().await.expect_err("refused");
    assert_eq!(error.kind, StoreErrorKind::Schema);
    let cause = error.source().expect("a cause").to_string();
    assert!(cause.contains("9999_future"), "{cause}");
    let last = db.store().migrations().await.expect("tells").pop().expect("some");
    assert_eq!((last.name.as_str(), last.known), ("9999_future", false));
    assert!(last.applied_at.is_some());
}

pub(super) async fn without_a_schema_the_error_says_so(dialect: Dialect) {
    let db = Database::unmigrated(dialect).await;
    let delivery = plain(&["a"]);
    let mut batch = db.store().begin(LIMITS).await.expect("begins");
    let error = batch.insert_events(&new_events(&delivery)).await.expect_err("no table");
    assert_eq!(error.kind, StoreErrorKind::Schema, "{error:?}");
    drop(batch);
    db.store().migrate().await.expect("migrates");
    assert_eq!(db.receive(&["a"]).await, [true]);
}

pub(super) async fn a_closed_store_refuses_work(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let store = db.another().await;
    store.close().await;
    let Err(error) = store.begin(LIMITS).await else { panic!("closed") };
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(store.now().await.is_err());
    assert_eq!(db.receive(&["a"]).await, [true], "another store is not touched");
}
