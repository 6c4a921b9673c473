//! Migrations on PostgreSQL: safe when several replicas start at once.

use sqlx::{Executor, Row};

use super::connect::ASIDE;
use super::{PostgresStore, classify};
use crate::store::migration::{self, AppliedMigration, Migration};
use crate::store::{BatchLimits, MigrationStatus, StoreError};

const MIGRATIONS: [Migration; 6] = [
    Migration { name: "0001_inbox", sql: include_str!("../../../migrations/postgres/0001_inbox.sql") },
    Migration { name: "0002_outbox", sql: include_str!("../../../migrations/postgres/0002_outbox.sql") },
    Migration { name: "0003_refusals", sql: include_str!("../../../migrations/postgres/0003_refusals.sql") },
    Migration {
        name: "0004_careful_batches",
        sql: include_str!("../../../migrations/postgres/0004_careful_batches.sql"),
    },
    Migration {
        name: "0005_handler_answers",
        sql: include_str!("../../../migrations/postgres/0005_handler_answers.sql"),
    },
    Migration {
        name: "0006_lines_of_an_event",
        sql: include_str!("../../../migrations/postgres/0006_lines_of_an_event.sql"),
    },
];

const MIGRATING: &str = "migrate the database";
const READING: &str = "read the list of migrations";

/// Changing a large table takes its time, and so may the replica that migrates before this one.
const LIMITS: BatchLimits = BatchLimits {
    lock_wait: std::time::Duration::from_secs(3_600),
    statement: std::time::Duration::from_secs(3_600),
};

/// How often to try again when another replica makes the schema at the same time.
const ATTEMPTS: u32 = 5;

pub(super) async fn migrate(store: &PostgresStore) -> Result<Vec<String>, StoreError> {
    // Asking first spares a role that may only use the tables, and a lock.
    let applied = applied(store).await?;
    if let Some(applied) = &applied
        && migration::pending(&MIGRATIONS, applied)?.is_empty()
    {
        return Ok(Vec::new());
    }
    if applied.is_none() {
        prepare(store).await?;
    }
    let ours = classify::ours(MIGRATING);
    let mut transaction = store.transaction(MIGRATING, LIMITS).await?;
    (&mut *transaction).execute(include_str!("sql/lock_migrations.sql")).await.map_err(ours)?;
    let applied = read(&mut transaction).await.map_err(ours)?;
    let mut names = Vec::new();
    for migration in migration::pending(&MIGRATIONS, &applied)? {
        for statement in migration.statements() {
            (&mut *transaction).execute(statement).await.map_err(ours)?;
        }
        let record = store.query(include_str!("sql/record_migration.sql")).bind(migration.name);
        record.execute(&mut *transaction).await.map_err(ours)?;
        names.push(migration.name.to_owned());
    }
    transaction.commit().await.map_err(ours)?;
    Ok(names)
}

pub(super) async fn migrations(store: &PostgresStore) -> Result<Vec<MigrationStatus>, StoreError> {
    Ok(migration::compare(&MIGRATIONS, &applied(store).await?.unwrap_or_default()))
}

/// The migrations that the database has run; `None` when it has no list yet.
async fn applied(store: &PostgresStore) -> Result<Option<Vec<AppliedMigration>>, StoreError> {
    let ours = classify::ours(READING);
    let mut transaction = store.transaction(READING, ASIDE).await?;
    let has = (&mut *transaction).fetch_one(include_str!("sql/has_migrations.sql")).await;
    let has: bool = has.and_then(|row| row.try_get(0)).map_err(ours)?;
    let applied = if has { Some(read(&mut transaction).await.map_err(ours)?) } else { None };
    transaction.commit().await.map_err(ours)?;
    Ok(applied)
}

async fn read(transaction: &mut sqlx::PgConnection) -> Result<Vec<AppliedMigration>, sqlx::Error> {
    let rows = sqlx::query(include_str!("sql/read_migrations.sql")).persistent(false);
    rows.fetch_all(transaction)
        .await?
        .iter()
        .map(|row| {
            Ok(AppliedMigration { name: row.try_get("name")?, applied_at: row.try_get("applied_at")? })
        })
        .collect()
}

/// Makes the schema and the list of migrations, which are what replicas take turns by.
async fn prepare(store: &PostgresStore) -> Result<(), StoreError> {
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        match try_prepare(store).await {
            Err(error) if attempts > 0 && is_race(&error) => {}
            result => return result.map_err(classify::ours(MIGRATING)),
        }
    }
}

async fn try_prepare(store: &PostgresStore) -> Result<(), sqlx::Error> {
    let mut transaction = store.pool.begin().await?;
    for statement in [include_str!("sql/create_schema.sql"), include_str!("sql/create_migrations.sql")] {
        (&mut *transaction).execute(statement).await?;
    }
    transaction.commit().await
}

/// IF NOT EXISTS does not wait for another transaction that is just making the same thing: then it
/// fails with unique_violation, duplicate_schema or duplicate_table.
fn is_race(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| matches!(&*code, "23505" | "42P06" | "42P07" | "42710"))
}
