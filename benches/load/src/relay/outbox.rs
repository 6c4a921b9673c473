//! The outboxes that relays are measured on: filled, emptied, counted, written to.
//!
//! Knows both layouts, hooklatch's and the usual guide's. Every message is an order of its own, about
//! 300 bytes.

use std::time::Instant;

use anyhow::{Result, bail};
use sqlx::{AssertSqlSafe, Connection, SqlitePool};
use uuid::Uuid;

use crate::store::Store;

/// Messages are written in transactions of this many, so that SQLite's log stays small.
const FILL_BATCH: u64 = 100_000;

/// A message's data, from an `order_id` in scope.
const DATA_POSTGRES: &str = "jsonb_build_object('order_id', order_id, 'customer_id', 'cust_' || n, \
     'amount_cents', 1299, 'note', repeat('x', 120))";
const DATA_SQLITE: &str = "json_object('order_id', order_id, 'customer_id', 'cust_' || n, \
     'amount_cents', 1299, 'note', printf('%.*c', 120, 'x'))";
/// A random id as text.
const RANDOM_SQLITE: &str = "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || \
     hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(6)))";

/// Whose tables they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Hooklatch,
    Guide,
}

#[derive(Debug)]
pub(super) struct Outbox {
    store: Store,
    layout: Layout,
}

impl Outbox {
    pub(super) fn new(store: Store, layout: Layout) -> Self {
        Self { store, layout }
    }

    /// Writes messages for a destination. The guide's outbox has one destination.
    pub(super) async fn fill(&self, destination: &str, messages: u64) -> Result<()> {
        let mut left = messages;
        while left > 0 {
            let batch = left.min(FILL_BATCH);
            self.run(&self.insert(destination, batch)).await?;
            left -= batch;
        }
        self.settle().await
    }

    /// Removes everything that was for the live destination.
    pub(super) async fn empty(&self) -> Result<()> {
        match (&self.store, self.layout) {
            (_, Layout::Guide) => self.run("TRUNCATE outbox").await?,
            (Store::Postgres(_), _) => {
                self.run("DELETE FROM hooklatch.outbox WHERE destination = 'live'").await?;
            }
            _ => self.run("DELETE FROM outbox WHERE destination = 'live'").await?,
        }
        self.settle().await
    }

    /// Messages that a relay has noted as sent.
    pub(super) async fn sent(&self) -> Result<u64> {
        let count: i64 = match (&self.store, self.layout) {
            (Store::Postgres(pool), Layout::Guide) => {
                sqlx::query_scalar("SELECT count(*) FROM outbox WHERE sent_at IS NOT NULL")
                    .fetch_one(pool)
                    .await?
            }
            (Store::Postgres(pool), Layout::Hooklatch) => {
                sqlx::query_scalar("SELECT count(*) FROM hooklatch.outbox WHERE state = 'sent'")
                    .fetch_one(pool)
                    .await?
            }
            (Store::Sqlite(pool), _) => {
                sqlx::query_scalar("SELECT count(*) FROM outbox WHERE state = 'sent'").fetch_one(pool).await?
            }
            (Store::None, _) => bail!("there is no outbox"),
        };
        Ok(u64::try_from(count)?)
    }

    /// Writes one message as an application does; returns the moment before its commit.
    pub(super) async fn write_one(&self, id: Uuid) -> Result<Instant> {
        const BODY: &str = r#"{"type":"order_created","data":{"amount_cents":1299}}"#;
        match &self.store {
            Store::Postgres(pool) => {
                let mut connection = pool.acquire().await?;
                let mut transaction = connection.begin().await?;
                sqlx::query(
                    "SELECT hooklatch.enqueue('live', $1::text, 'order_created', $2::text, id => $2)",
                )
                .bind(BODY)
                .bind(id)
                .execute(&mut *transaction)
                .await?;
                let before = Instant::now();
                transaction.commit().await?;
                Ok(before)
            }
            Store::Sqlite(pool) => {
                let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
                sqlx::query("INSERT INTO outbox (id, destination, payload) VALUES ($1, 'live', $2)")
                    .bind(id.hyphenated())
                    .bind(BODY)
                    .execute(&mut *transaction)
                    .await?;
                let before = Instant::now();
                transaction.commit().await?;
                Ok(before)
            }
            Store::None => bail!("there is no outbox"),
        }
    }

    fn insert(&self, destination: &str, messages: u64) -> String {
        match (&self.store, self.layout) {
            (Store::Sqlite(_), _) => format!(
                "WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {messages}), \
                 made AS MATERIALIZED (SELECT n, {RANDOM_SQLITE} AS id, {RANDOM_SQLITE} AS order_id FROM counted) \
                 INSERT INTO outbox (id, destination, aggregate_id, event_type, payload) \
                 SELECT id, '{destination}', order_id, 'order_created', \
                        json_object('id', id, 'type', 'order_created', 'data', json({DATA_SQLITE})) FROM made"
            ),
            (_, Layout::Guide) => format!(
                "INSERT INTO outbox (id, aggregate_id, event_type, payload, created_at) \
                 SELECT gen_random_uuid(), order_id, 'order_created', {DATA_POSTGRES}, \
                        now() + n * interval '1 microsecond' \
                 FROM (SELECT n, gen_random_uuid() AS order_id FROM generate_series(1, {messages}) AS n) AS made"
            ),
            _ => format!(
                "INSERT INTO hooklatch.outbox (id, destination, aggregate_id, event_type, payload) \
                 SELECT id, '{destination}', order_id::text, 'order_created', \
                        convert_to(json_build_object('id', id, 'type', 'order_created', 'data', {DATA_POSTGRES})::text, 'UTF8') \
                 FROM (SELECT n, gen_random_uuid() AS id, gen_random_uuid() AS order_id \
                       FROM generate_series(1, {messages}) AS n) AS made"
            ),
        }
    }

    async fn run(&self, sql: &str) -> Result<()> {
        match &self.store {
            Store::Postgres(pool) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await?;
            }
            Store::Sqlite(pool) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await?;
            }
            Store::None => {}
        }
        Ok(())
    }

    /// What the database would have done in time.
    async fn settle(&self) -> Result<()> {
        match &self.store {
            Store::Postgres(pool) => {
                sqlx::raw_sql("VACUUM (ANALYZE)").execute(pool).await?;
            }
            Store::Sqlite(pool) => truncate_log(pool).await?,
            Store::None => {}
        }
        Ok(())
    }
}

async fn truncate_log(pool: &SqlitePool) -> Result<()> {
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(pool).await?;
    Ok(())
}
