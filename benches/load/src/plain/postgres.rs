//! The plain peer on PostgreSQL: a pool, and one transaction a request.
//!
//! `sqlite.rs` is its mirror.

use anyhow::Result;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::{Answer, CONSUMER, Event, REPLY_HEADERS, applied};

pub(super) struct PostgresStore {
    pool: PgPool,
    answer_first: bool,
}

impl PostgresStore {
    pub(super) async fn connect(url: &str, connections: u32, answer_first: bool) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections)
            // A ping before every transaction would be a round trip for nothing.
            .test_before_acquire(false)
            .connect(url)
            .await?;
        Ok(Self { pool, answer_first })
    }

    pub(super) async fn apply(&self, event: &Event<'_>) -> Result<Answer, sqlx::Error> {
        let answer = applied(event.id);
        let stored_with_the_key = self.answer_first.then_some((REPLY_HEADERS, answer.as_slice()));

        let mut transaction = self.pool.begin().await?;
        let inserted = sqlx::query(
            "INSERT INTO processed_events (consumer, event_id, source, event_type, occurred_at, state, \
             status, reply_headers, reply_body) VALUES ($1, $2, $1, $3, $4, 'applied', 200, $5::jsonb, $6) \
             ON CONFLICT DO NOTHING",
        )
        .bind(CONSUMER)
        .bind(event.id)
        .bind(event.event_type)
        .bind(event.timestamp)
        .bind(stored_with_the_key.map(|(headers, _)| headers))
        .bind(stored_with_the_key.map(|(_, body)| body))
        .execute(&mut *transaction)
        .await?
        .rows_affected();
        if inserted == 0 {
            let (status, body): (i16, Vec<u8>) = sqlx::query_as(
                "SELECT status, reply_body FROM processed_events WHERE consumer = $1 AND event_id = $2",
            )
            .bind(CONSUMER)
            .bind(event.id)
            .fetch_one(&mut *transaction)
            .await?;
            transaction.commit().await?;
            return Ok(Answer::Replayed { status: status.unsigned_abs(), body });
        }
        sqlx::query(
            "INSERT INTO orders (id, customer_id, status, amount_cents) VALUES ($1, $2, 'created', $3)",
        )
        .bind(event.data.order_id)
        .bind(event.data.customer_id)
        .bind(event.data.amount_cents)
        .execute(&mut *transaction)
        .await?;
        if !self.answer_first {
            sqlx::query(
                "UPDATE processed_events SET reply_headers = $3::jsonb, reply_body = $4 \
                 WHERE consumer = $1 AND event_id = $2",
            )
            .bind(CONSUMER)
            .bind(event.id)
            .bind(REPLY_HEADERS)
            .bind(&answer)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(Answer::Applied(answer))
    }
}
