//! The plain peer on SQLite: one writing connection, and one transaction a request.
//!
//! `postgres.rs` is its mirror. Differs because SQLite has one writer: the pool is one connection,
//! and every transaction begins as a writer.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::{Answer, CONSUMER, Event, REPLY_HEADERS, applied};

/// The harness empties the tables now and then.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct SqliteStore(SqlitePool);

impl SqliteStore {
    pub(super) async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let pool = SqlitePoolOptions::new()
            .min_connections(1)
            .max_connections(1)
            .test_before_acquire(false)
            .connect_with(options)
            .await?;
        Ok(Self(pool))
    }

    pub(super) async fn apply(&self, event: &Event<'_>) -> Result<Answer, sqlx::Error> {
        let mut transaction = self.0.begin_with("BEGIN IMMEDIATE").await?;
        let inserted = sqlx::query(
            "INSERT INTO processed_events (consumer, event_id, source, event_type, occurred_at, state, status) \
             VALUES (?1, ?2, ?1, ?3, ?4, 'applied', 200) ON CONFLICT DO NOTHING",
        )
        .bind(CONSUMER)
        .bind(event.id)
        .bind(event.event_type)
        .bind(event.timestamp)
        .execute(&mut *transaction)
        .await?
        .rows_affected();
        if inserted == 0 {
            let (status, body): (u16, Vec<u8>) = sqlx::query_as(
                "SELECT status, reply_body FROM processed_events WHERE consumer = ?1 AND event_id = ?2",
            )
            .bind(CONSUMER)
            .bind(event.id)
            .fetch_one(&mut *transaction)
            .await?;
            transaction.commit().await?;
            return Ok(Answer::Replayed { status, body });
        }
        sqlx::query(
            "INSERT INTO orders (id, customer_id, status, amount_cents) VALUES (?1, ?2, 'created', ?3)",
        )
        .bind(event.data.order_id.to_string())
        .bind(event.data.customer_id)
        .bind(event.data.amount_cents)
        .execute(&mut *transaction)
        .await?;
        let answer = applied(event.id);
        sqlx::query(
            "UPDATE processed_events SET reply_headers = ?3, reply_body = ?4 \
             WHERE consumer = ?1 AND event_id = ?2",
        )
        .bind(CONSUMER)
        .bind(event.id)
        .bind(REPLY_HEADERS)
        .bind(&answer)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(Answer::Applied(answer))
    }
}
