//! The plain peer: the receiver a good engineer writes first, with actix-web and sqlx.
//!
//! One transaction a request: insert the event id, the order, the answer; commit; answer. Verifies,
//! deduplicates and replays as hooklatch does, with prepared statements, the same durability and
//! nothing to wait for. Runs as a process of its own; knows nothing of the harness.

mod postgres;
mod signature;
mod sqlite;

use std::net::TcpListener;
use std::path::PathBuf;

use actix_web::http::StatusCode;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use sqlx::error::ErrorKind;
use uuid::Uuid;

use postgres::PostgresStore;
use signature::Verifier;
use sqlite::SqliteStore;

/// The scope of deduplication and the name of the only source.
const CONSUMER: &str = "shop";
const REPLY_HEADERS: &str = r#"{"content-type":"application/json"}"#;
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Where the plain peer keeps its events.
#[derive(clap::Args, Debug)]
pub(crate) struct PlainOptions {
    /// Port on 127.0.0.1.
    #[arg(long)]
    port: u16,
    /// Connections to PostgreSQL. The URL comes from `BENCH_DATABASE_URL`.
    #[arg(long, conflicts_with = "sqlite")]
    pool: Option<u32>,
    /// A SQLite file, with one writing connection.
    #[arg(long)]
    sqlite: Option<PathBuf>,
    /// Writes the answer with the event id, as a receiver can that knows it beforehand: one
    /// statement fewer.
    #[arg(long)]
    answer_first: bool,
}

/// Serves until it is told to end.
pub(crate) fn serve(options: &PlainOptions) -> Result<()> {
    let secret = std::env::var("BENCH_SECRET").context("BENCH_SECRET is not set")?;
    actix_web::rt::System::new().block_on(async {
        let store = match (&options.sqlite, options.pool) {
            (Some(path), _) => Store::Sqlite(SqliteStore::open(path).await?),
            (None, Some(pool)) => {
                let url = std::env::var("BENCH_DATABASE_URL").context("BENCH_DATABASE_URL is not set")?;
                Store::Postgres(PostgresStore::connect(&url, pool, options.answer_first).await?)
            }
            (None, None) => Store::Nowhere,
        };
        let state = web::Data::new(Receiver { verifier: Verifier::new(&secret)?, store });
        let listener = TcpListener::bind(("127.0.0.1", options.port))?;
        HttpServer::new(move || {
            App::new()
                .app_data(web::Data::clone(&state))
                .app_data(web::PayloadConfig::new(MAX_BODY_BYTES))
                .route("/readyz", web::get().to(HttpResponse::Ok))
                .route("/hooks/shop", web::post().to(receive))
        })
        .listen(listener)?
        .run()
        .await?;
        Ok(())
    })
}

struct Receiver {
    verifier: Verifier,
    store: Store,
}

enum Store {
    /// Verified and parsed, then forgotten: what HTTP alone costs.
    Nowhere,
    Postgres(PostgresStore),
    Sqlite(SqliteStore),
}

#[derive(Deserialize)]
struct Event<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: DateTime<Utc>,
    data: Order<'a>,
}

#[derive(Deserialize)]
struct Order<'a> {
    order_id: Uuid,
    customer_id: &'a str,
    amount_cents: i64,
}

/// What the sender gets for an event.
enum Answer {
    Applied(Vec<u8>),
    Replayed { status: u16, body: Vec<u8> },
}

async fn receive(request: HttpRequest, body: web::Bytes, receiver: web::Data<Receiver>) -> HttpResponse {
    if !receiver.verifier.accepts(request.headers(), &body) {
        return HttpResponse::Unauthorized().finish();
    }
    let Ok(event) = serde_json::from_slice::<Event<'_>>(&body) else {
        return HttpResponse::BadRequest().finish();
    };
    let settled = match &receiver.store {
        Store::Nowhere => Ok(Answer::Applied(applied(event.id))),
        Store::Postgres(store) => store.apply(&event).await,
        Store::Sqlite(store) => store.apply(&event).await,
    };
    match settled {
        Ok(Answer::Applied(body)) => HttpResponse::Ok().content_type("application/json").body(body),
        Ok(Answer::Replayed { status, body }) => {
            HttpResponse::build(StatusCode::from_u16(status).unwrap_or(StatusCode::OK))
                .content_type("application/json")
                .insert_header(("idempotent-replayed", "true"))
                .body(body)
        }
        Err(error) if is_refusal(&error) => HttpResponse::UnprocessableEntity().finish(),
        Err(_) => HttpResponse::ServiceUnavailable().insert_header(("retry-after", "1")).finish(),
    }
}

fn applied(event_id: &str) -> Vec<u8> {
    serde_json::json!({"status": "applied", "event_id": event_id}).to_string().into_bytes()
}

/// A constraint refused the event: it will never succeed.
fn is_refusal(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| !matches!(error.kind(), ErrorKind::Other))
}
