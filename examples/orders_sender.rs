//! A sender's own application in Rust: an order and the message about it are one transaction, the caller's.
//!
//! On PostgreSQL and on SQLite. `examples/orders/sender.py` is the same in Python, and
//! `examples/orders/relay.toml` the relay that runs beside either.
//!
//! ```console
//! $ export SENDER_DATABASE_URL=postgres://localhost/shop
//! $ hooklatch migrate --config examples/orders/relay.toml
//! $ cargo run --example orders_sender -- --customer cus_42 --amount-cents 4990
//! $ hooklatch relay --config examples/orders/relay.toml
//! ```

use std::error::Error;

use clap::{Parser, ValueEnum};
use hooklatch::clock;
use hooklatch::handler::HandlerConnection;
use hooklatch::outbox::{Message, enqueue};
use serde_json::json;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

/// Legal on both.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS placed_orders (
    id text PRIMARY KEY, customer_id text NOT NULL, amount_cents bigint NOT NULL)";
const INSERT: &str = "INSERT INTO placed_orders (id, customer_id, amount_cents) VALUES ($1, $2, $3)";

/// Place an order, and tell the ERP through the outbox
#[derive(Debug, Parser)]
struct Wanted {
    /// postgres://… or sqlite://…
    #[arg(long, env = "SENDER_DATABASE_URL", hide_env_values = true)]
    database: String,
    #[arg(long, default_value = "cus_42")]
    customer: String,
    #[arg(long, default_value_t = 4990)]
    amount_cents: i64,
    /// Roll back, to see that nothing stays
    #[arg(long)]
    fail: Option<Fail>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fail {
    /// Between the order and its message.
    Between,
    /// After both.
    After,
}

/// Writes the order and its message in the caller's transaction: both are there when it commits, and
/// neither otherwise. Returns the order's id.
async fn place_order(
    transaction: &mut HandlerConnection<'_>,
    wanted: &Wanted,
) -> Result<String, Box<dyn Error>> {
    let order_id = clock::new_id().to_string();
    match transaction {
        HandlerConnection::Postgres(postgres) => {
            let insert = sqlx::query(INSERT).bind(&order_id).bind(&wanted.customer).bind(wanted.amount_cents);
            insert.execute(&mut **postgres).await?;
        }
        HandlerConnection::Sqlite(sqlite) => {
            let insert = sqlx::query(INSERT).bind(&order_id).bind(&wanted.customer).bind(wanted.amount_cents);
            insert.execute(&mut **sqlite).await?;
        }
    }
    if wanted.fail == Some(Fail::Between) {
        return Err("between the order and its message".into());
    }
    let mut message = Message::new("erp", Vec::new());
    message.event_type = "order_created".to_owned();
    message.aggregate_id = Some(order_id.clone());
    // The receiver finds the event's id in the body; it is the message's, so that no delivery differs.
    let event = json!({
        "id": message.id,
        "type": "order_created",
        "data": {
            "order_id": order_id,
            "invoice_id": format!("inv_{order_id}"),
            "customer_id": wanted.customer,
            "amount_cents": wanted.amount_cents,
        },
    });
    message.payload = event.to_string().into_bytes();
    enqueue(transaction, &message).await?;
    if wanted.fail == Some(Fail::After) {
        return Err("after the order and its message".into());
    }
    Ok(order_id)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let wanted = Wanted::parse();
    // A transaction that is dropped is rolled back.
    let order_id = if wanted.database.starts_with("sqlite:") {
        let mut connection = SqliteConnection::connect(&wanted.database).await?;
        sqlx::query(TABLE).execute(&mut connection).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let order_id = place_order(&mut HandlerConnection::Sqlite(&mut transaction), &wanted).await?;
        transaction.commit().await?;
        order_id
    } else {
        let mut connection = PgConnection::connect(&wanted.database).await?;
        sqlx::query(TABLE).execute(&mut connection).await?;
        let mut transaction = connection.begin().await?;
        let order_id = place_order(&mut HandlerConnection::Postgres(&mut transaction), &wanted).await?;
        transaction.commit().await?;
        order_id
    };
    println!("{order_id}");
    Ok(())
}
