//! What holds when transactions meet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use hooklatch::store::{Age, BatchLimits, Dialect, Prunable, Store, StoreError, StoreErrorKind, Windows};

use super::fixture::{Database, LIMITS, TWO_HOURS, WINDOWS, key, keys, new_events, plain};

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

/// Receives `id` as the inbox does: a row that has expired is removed and inserted anew. The
/// transaction's time if the event was new.
async fn receive_anew(
    store: Arc<dyn Store>,
    id: &str,
    windows: Windows,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    /// Each takes another transaction that interferes.
    const ROUNDS: usize = 20;
    let delivery = plain(&[id]);
    let mut batch = store.begin(LIMITS).await?;
    for _ in 0..ROUNDS {
        if batch.insert_events(&new_events(&delivery)).await?[0] {
            let now = batch.now().await?;
            batch.commit().await?;
            return Ok(Some(now));
        }
        match batch.stored_events(&keys(&delivery), windows).await?.remove(0) {
            Some(row) if row.age == Age::Expired => batch.remove_events(&keys(&delivery), windows).await?,
            Some(_) => {
                batch.commit().await?;
                return Ok(None);
            }
            None => {}
        }
    }
    panic!("the row kept vanishing");
}

pub(super) async fn of_many_that_find_a_row_expired_one_inserts(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let stores = [db.shared(), db.another().await];
    for id in ["a", "b", "c"] {
        db.receive(&[id]).await;
        db.pass(TWO_HOURS).await;
        let tasks: Vec<_> =
            (0..8).map(|n| tokio::spawn(receive_anew(stores[n % 2].clone(), id, WINDOWS))).collect();
        let mut inserted = 0;
        for task in tasks {
            inserted += usize::from(task.await.expect("no panic").expect("goes on").is_some());
        }
        assert_eq!(inserted, 1);
    }
}

/// Receives the event `hot` on four tasks for a while; the times at which it took effect.
async fn receive_for_a_while(db: &Database, until: Instant, windows: Windows) -> Vec<DateTime<Utc>> {
    const PAUSE: Duration = Duration::from_millis(3);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = db.shared();
            tokio::spawn(async move {
                let mut effects = Vec::new();
                while Instant::now() < until {
                    effects.extend(receive_anew(store.clone(), "hot", windows).await.expect("goes on"));
                    tokio::time::sleep(PAUSE).await;
                }
                effects
            })
        })
        .collect();
    let mut effects = Vec::new();
    for task in tasks {
        effects.extend(task.await.expect("no panic"));
    }
    effects.sort();
    effects
}

pub(super) async fn pruning_beside_inserts_doubles_nothing(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let window = Duration::from_millis(100);
    let until = Instant::now() + Duration::from_secs(2);
    let store = db.another().await;
    let pruner = tokio::spawn(async move {
        while Instant::now() < until {
            store.prune(Prunable::ProcessedEvents, window, 10).await.expect("prunes");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let effects = receive_for_a_while(&db, until, Windows { events: window, answers: window }).await;
    pruner.await.expect("no panic");
    assert!(effects.len() > 1, "{} effects", effects.len());
    for pair in effects.windows(2) {
        assert!((pair[1] - pair[0]).to_std().expect("sorted") >= window, "two effects within the window");
    }
}

pub(super) async fn rows_that_vanish_beside_inserts_are_inserted_anew(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let until = Instant::now() + Duration::from_secs(1);
    let store = db.another().await;
    let forgetter = tokio::spawn(async move {
        let mut forgotten = 0;
        while Instant::now() < until {
            forgotten += usize::from(store.forget_event(&key("hot")).await.expect("forgets"));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        forgotten
    });
    let effects = receive_for_a_while(&db, until, WINDOWS).await.len();
    let forgotten = forgetter.await.expect("no panic");
    assert!(forgotten > 0 && effects >= forgotten && effects <= forgotten + 1, "{effects}, {forgotten}");
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
        db.store().forget_event(&key("cancelled")).await.expect("forgets");
    }
    assert_eq!(db.receive(&["after"]).await, [true]);
}
