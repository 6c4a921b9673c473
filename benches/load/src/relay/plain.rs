//! The plain relay: one transaction an event, with sqlx and reqwest.
//!
//! Locks one row, posts it, marks it, commits; then comes the next. Prepared statements, a kept
//! connection on both sides, nothing to wait for. Runs as a process of its own; knows nothing of the
//! harness.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

const IDLE_PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Event<'a> {
    id: Uuid,
    #[serde(rename = "type")]
    event_type: &'a str,
    data: &'a RawValue,
}

/// Relays until it is ended.
pub(crate) fn relay() -> Result<()> {
    let database = std::env::var("BENCH_DATABASE_URL").context("BENCH_DATABASE_URL is not set")?;
    let url = std::env::var("BENCH_SINK_URL").context("BENCH_SINK_URL is not set")?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut connection = PgConnection::connect(&database).await?;
        let http = reqwest::Client::builder().tcp_nodelay(true).timeout(TIMEOUT).build()?;
        loop {
            if !relay_one(&mut connection, &http, &url).await? {
                tokio::time::sleep(IDLE_PAUSE).await;
            }
        }
    })
}

async fn relay_one(connection: &mut PgConnection, http: &reqwest::Client, url: &str) -> Result<bool> {
    let mut transaction = connection.begin().await?;
    let row: Option<(Uuid, String, Json<Box<RawValue>>)> = sqlx::query_as(
        "SELECT id, event_type, payload FROM outbox WHERE sent_at IS NULL \
         ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED",
    )
    .fetch_optional(&mut *transaction)
    .await?;
    let Some((id, event_type, payload)) = row else { return Ok(false) };
    let event = Event { id, event_type: &event_type, data: &payload.0 };
    http.post(url)
        .header("content-type", "application/json")
        .header("idempotency-key", id.to_string())
        .body(serde_json::to_vec(&event)?)
        .send()
        .await?
        .error_for_status()?;
    sqlx::query("UPDATE outbox SET sent_at = now() WHERE id = $1")
        .bind(id)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}
