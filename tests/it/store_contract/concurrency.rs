//! What holds when transactions meet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hooklatch::store::{BatchLimits, Dialect, Prunable, Store, StoreError, StoreErrorKind, Windows};

use super::fixture::{Database, LIMITS, WINDOWS, keys, new_events, outlive, plain};

/// Long enough for another transaction to reach its wait.
const HEAD_START: Duration = Duration::from_millis(200);

/// Inserts `id` in a transaction of its own; true if it was new.
async fn receive(store: Arc<dyn Store>, id: &str, limits: BatchLimits) -> Result<bool, StoreError> {
    let delivery = plain(&[id]);
    let mut batch = store.begin(limits).await?;
    let inserted = batch.insert_events(&new_events(&delivery)).await?;
    if !inserted[0] {
        let stored = batch.stored_events(&keys(&delivery), WINDOWS).await?;
        assert!(stored[0].is_some(), "the row that was waited for is seen");
    }
    batch.commit().await?;
    Ok(inserted[0])
}

pub(super) async fn a_key_held_elsewhere_is_waited_for_and_seen(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a"]);
    let mut first = db.begin().await;
    first.insert_events(&new_events(&delivery)).await.expect("inserts");
    let second = tokio::spawn(receive(db.another().await, "a", LIMITS));
    tokio::time::sleep(HEAD_START).await;
    assert!(!second.is_finished(), "it waits");
    first.commit().await.expect("commits");
    assert!(!second.await.expect("no panic").expect("goes on"));
}

pub(super) async fn a_key_given_back_elsewhere_is_free(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a"]);
    let mut first = db.begin().await;
    first.insert_events(&new_events(&delivery)).await.expect("inserts");
    let second = tokio::spawn(receive(db.another().await, "a", LIMITS));
    tokio::time::sleep(HEAD_START).await;
    assert!(!second.is_finished(), "it waits");
    drop(first);
    assert!(second.await.expect("no panic").expect("goes on"));
}

pub(super) async fn a_key_held_too_long_is_a_lock_timeout(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let delivery = plain(&["a"]);
    let mut first = db.begin().await;
    first.insert_events(&new_events(&delivery)).await.expect("inserts");
    let impatient = BatchLimits { lock_wait: Duration::from_millis(300), ..LIMITS };
    for store in [db.shared(), db.another().await] {
        let started = Instant::now();
        let error = receive(store, "a", impatient).await.expect_err("gives up");
        assert_eq!(error.kind, StoreErrorKind::LockTimeout, "{error:?}");
        let waited = started.elapsed();
        assert!(waited >= Duration::from_millis(250) && waited < Duration::from_secs(3), "{waited:?}");
    }
    first.commit().await.expect("commits");
    assert!(!receive(db.shared(), "a", impatient).await.expect("goes on"));
}

/// Receives `id` as the inbox does: a row that has expired is removed and inserted anew.
async fn receive_anew(store: Arc<dyn Store>, id: &str, windows: Windows) -> Result<bool, StoreError> {
    const ROUNDS: usize = 8;
    let delivery = plain(&[id]);
    let mut batch = store.begin(LIMITS).await?;
    for _ in 0..ROUNDS {
        if batch.insert_events(&new_events(&delivery)).await?[0] {
            batch.commit().await?;
            return Ok(true);
        }
        let stored = batch.stored_events(&keys(&delivery), windows).await?.remove(0);
        match stored {
            Some(row) if row.age != hooklatch::store::Age::Expired => {
                batch.commit().await?;
                return Ok(false);
            }
            Some(_) => batch.remove_events(&keys(&delivery), windows).await?,
            None => {}
        }
    }
    panic!("the row kept vanishing");
}

pub(super) async fn of_many_that_find_a_row_expired_one_inserts(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let window = Duration::from_millis(800);
    let windows = Windows { events: window, answers: window };
    let stores = [db.shared(), db.another().await];
    for id in ["a", "b", "c"] {
        db.receive(&[id]).await;
        outlive(window).await;
        let tasks: Vec<_> =
            (0..8).map(|n| tokio::spawn(receive_anew(stores[n % 2].clone(), id, windows))).collect();
        let mut inserted = 0;
        for task in tasks {
            inserted += usize::from(task.await.expect("no panic").expect("goes on"));
        }
        assert_eq!(inserted, 1);
    }
}

pub(super) async fn pruning_beside_inserts_loses_and_doubles_nothing(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let window = Duration::from_millis(150);
    let windows = Windows { events: window, answers: window };
    let deadline = Instant::now() + Duration::from_secs(2);
    let pruner = {
        let store = db.another().await;
        tokio::spawn(async move {
            while Instant::now() < deadline {
                store.prune(Prunable::ProcessedEvents, window, 10).await.expect("prunes");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = db.shared();
            tokio::spawn(async move {
                let mut effects = Vec::new();
                while Instant::now() < deadline {
                    if receive_anew(store.clone(), "hot", windows).await.expect("goes on") {
                        effects.push(Instant::now());
                    }
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                effects
            })
        })
        .collect();
    let mut effects = Vec::new();
    for task in tasks {
        effects.extend(task.await.expect("no panic"));
    }
    pruner.await.expect("no panic");
    effects.sort();
    assert!(effects.len() > 3, "{} effects", effects.len());
    // Seen from here, an effect may lie a little later than its transaction's time.
    let slack = Duration::from_millis(100);
    for pair in effects.windows(2) {
        assert!(pair[1] - pair[0] + slack > window, "two effects within the window: {:?}", pair[1] - pair[0]);
    }
}

pub(super) async fn a_store_goes_on_after_a_cancelled_batch(dialect: Dialect) {
    let db = Database::new(dialect).await;
    for n in 0..40 {
        let store = db.shared();
        let task = tokio::spawn(async move { receive(store, "cancelled", LIMITS).await.map(drop) });
        tokio::time::sleep(Duration::from_micros(n * 40)).await;
        task.abort();
        // Cancelled, or done before.
        drop(task.await);
        db.store().forget_event(&super::fixture::key("cancelled")).await.expect("forgets");
    }
    assert_eq!(db.receive(&["after"]).await, [true]);
}
