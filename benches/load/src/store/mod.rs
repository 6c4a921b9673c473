//! The database behind a target, as the harness sees it: emptied between cells, counted after
//! them. Knows the tables of both layouts; never writes an event by itself except to preload.

pub(crate) mod cluster;
mod preload;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

pub(crate) use preload::preload;

/// Every table that a target writes to, in whichever layout has it.
const TABLES: [&str; 7] = [
    "orders",
    "processed_events",
    "hooklatch.processed_events",
    "hooklatch.idempotency_keys",
    "hooklatch.dead_letters",
    "hooklatch.deliveries",
    "hooklatch.entity_versions",
];
const SQLITE_TABLES: [&str; 6] =
    ["orders", "processed_events", "idempotency_keys", "dead_letters", "deliveries", "entity_versions"];
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) enum Store {
    Postgres(PgPool),
    Sqlite(SqlitePool),
    None,
}

impl Store {
    /// Opens a SQLite file, which is created if it is not there.
    pub(crate) async fn open_sqlite(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(BUSY_TIMEOUT);
        Ok(Self::Sqlite(SqlitePoolOptions::new().max_connections(1).connect_with(options).await?))
    }

    /// Runs a schema file.
    pub(crate) async fn define(&self, schema: &Path) -> Result<()> {
        let text =
            std::fs::read_to_string(schema).with_context(|| format!("cannot read {}", schema.display()))?;
        match self {
            Self::Postgres(pool) => {
                sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await?;
            }
            Self::Sqlite(pool) => {
                sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await?;
            }
            Self::None => {}
        }
        Ok(())
    }

    /// Removes all events and all they did, so that every cell starts alike.
    pub(crate) async fn empty(&self) -> Result<()> {
        match self {
            Self::Postgres(pool) => {
                let mut present = Vec::new();
                for table in TABLES {
                    let known: Option<String> = sqlx::query_scalar("SELECT to_regclass($1)::text")
                        .bind(table)
                        .fetch_one(pool)
                        .await?;
                    present.extend(known.map(|_| table));
                }
                let sql = format!("TRUNCATE {}", present.join(", "));
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await?;
            }
            Self::Sqlite(pool) => empty_sqlite(pool).await?,
            Self::None => {}
        }
        Ok(())
    }

    /// How many orders there are: the effects. `None` where nothing is kept.
    pub(crate) async fn effects(&self) -> Result<Option<u64>> {
        const COUNT: &str = "SELECT count(*) FROM orders";
        let count: i64 = match self {
            Self::Postgres(pool) => sqlx::query_scalar(COUNT).fetch_one(pool).await?,
            Self::Sqlite(pool) => sqlx::query_scalar(COUNT).fetch_one(pool).await?,
            Self::None => return Ok(None),
        };
        Ok(Some(u64::try_from(count)?))
    }

    /// Lets the planner know what the tables hold.
    pub(crate) async fn analyze(&self) -> Result<()> {
        if let Self::Postgres(pool) = self {
            sqlx::raw_sql("VACUUM (FREEZE, ANALYZE)").execute(pool).await?;
        }
        Ok(())
    }
}

async fn empty_sqlite(pool: &SqlitePool) -> Result<()> {
    let present: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table'").fetch_all(pool).await?;
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    for table in SQLITE_TABLES.into_iter().filter(|table| present.iter().any(|name| name == table)) {
        sqlx::raw_sql(AssertSqlSafe(format!("DELETE FROM {table}"))).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(pool).await?;
    Ok(())
}
