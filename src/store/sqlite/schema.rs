//! The tables: running the migrations that are missing, and telling which have run.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{SqliteStore, classify, connect, rows};
use crate::store::migration::{self, AppliedMigration, Migration};
use crate::store::{MigrationStatus, StoreError};

const MIGRATIONS: [Migration; 3] = [
    Migration { name: "0001_inbox", sql: include_str!("../../../migrations/sqlite/0001_inbox.sql") },
    Migration { name: "0002_outbox", sql: include_str!("../../../migrations/sqlite/0002_outbox.sql") },
    Migration { name: "0003_refusals", sql: include_str!("../../../migrations/sqlite/0003_refusals.sql") },
];

const READING: &str = "read the migrations";

/// Runs what is missing in one transaction: of several programs that start at once, one does it
/// and the others find it done.
pub(super) async fn migrate(store: &SqliteStore) -> Result<Vec<String>, StoreError> {
    let mut lease = store.writer.begin(connect::PATIENCE, None).await?;
    lease.execute("create schema_migrations", sqlx::query(include_str!("sql/create_migrations.sql"))).await?;
    let applied = lease.fetch(READING, sqlx::query(include_str!("sql/read_migrations.sql"))).await?;
    let mut ran = Vec::new();
    for migration in migration::pending(&MIGRATIONS, &read(&applied)?)? {
        for statement in migration.statements() {
            lease.execute("migrate the database", sqlx::query(statement).persistent(false)).await?;
        }
        let record = sqlx::query(include_str!("sql/record_migration.sql"))
            .bind(migration.name)
            .bind(rows::micros(store.clock.now()));
        lease.execute("record a migration", record).await?;
        ran.push(migration.name.to_owned());
    }
    lease.commit().await?;
    Ok(ran)
}

pub(super) async fn migrations(store: &SqliteStore) -> Result<Vec<MigrationStatus>, StoreError> {
    let tables: i64 = sqlx::query_scalar(include_str!("sql/has_migrations.sql"))
        .fetch_one(&store.readers)
        .await
        .map_err(classify::ours(READING))?;
    let applied = match tables {
        0 => Vec::new(),
        _ => sqlx::query(include_str!("sql/read_migrations.sql"))
            .fetch_all(&store.readers)
            .await
            .map_err(classify::ours(READING))?,
    };
    Ok(migration::compare(&MIGRATIONS, &read(&applied)?))
}

fn read(applied: &[SqliteRow]) -> Result<Vec<AppliedMigration>, StoreError> {
    let read = |row: &SqliteRow| {
        Ok(AppliedMigration { name: row.try_get("name")?, applied_at: rows::time(row, "applied_at")? })
    };
    applied.iter().map(read).collect::<Result<_, sqlx::Error>>().map_err(classify::ours(READING))
}
