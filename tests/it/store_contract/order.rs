//! The ordering guard: what each entity has seen.

use hooklatch::store::{Dialect, EntityRef};

use super::fixture::Database;

const A: EntityRef<'_> = EntityRef { consumer: "shop", entity: "a" };
const B: EntityRef<'_> = EntityRef { consumer: "shop", entity: "b" };

async fn advance(db: &Database, entities: &[(EntityRef<'_>, i64)]) -> bool {
    let mut batch = db.begin().await;
    let advanced = batch.advance_entities(entities).await.expect("advances");
    if advanced {
        batch.commit().await.expect("commits");
    }
    advanced
}

async fn sequences(db: &Database, entities: &[EntityRef<'_>]) -> Vec<Option<i64>> {
    db.begin().await.entity_sequences(entities).await.expect("reads")
}

pub(super) async fn an_entity_moves_forward_only(dialect: Dialect) {
    let db = Database::new(dialect).await;
    assert_eq!(sequences(&db, &[A, B]).await, [None, None]);
    assert!(advance(&db, &[(A, 5)]).await);
    assert!(advance(&db, &[(A, i64::MAX - 1), (B, i64::MIN)]).await);
    assert_eq!(sequences(&db, &[B, A]).await, [Some(i64::MIN), Some(i64::MAX - 1)]);
    assert!(!advance(&db, &[(A, 6), (B, 7)]).await, "one of them has seen something newer");
    assert_eq!(sequences(&db, &[A, B]).await, [Some(i64::MAX - 1), Some(i64::MIN)]);
    assert!(advance(&db, &[(A, i64::MAX - 1)]).await, "the same is not newer");
}

pub(super) async fn entities_of_two_consumers_are_apart(dialect: Dialect) {
    let db = Database::new(dialect).await;
    let elsewhere = EntityRef { consumer: "crm", entity: "a" };
    assert!(advance(&db, &[(A, 5)]).await);
    assert!(advance(&db, &[(elsewhere, 2)]).await);
    assert_eq!(sequences(&db, &[elsewhere, A]).await, [Some(2), Some(5)]);
}
