//! hooklatch as a library, with a handler of its own: loyalty points for orders.
//!
//! What a statement can say belongs in the configuration. This handler has a rule that is easier to
//! write, and to test, in Rust. It runs inside hooklatch's transaction: the points, the event key and
//! the answer are there together, or none of them is.
//!
//! ```console
//! $ cargo run --example rust_handler
//! $ curl -i http://127.0.0.1:8080/hooks/shop -H 'content-type: application/json' \
//!     -d '{"id": "evt_1", "type": "order_created", "data": {"customer_id": "cus_1", "amount_cents": 4990}}'
//! ```
//!
//! Any key of the configuration can be set from the environment, such as
//! `HOOKLATCH__DATABASE__URL=postgres://…`.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use hooklatch::app::{App, Role};
use hooklatch::clock::Clock;
use hooklatch::config::{Config, Environment};
use hooklatch::event::{Event, EventKey};
use hooklatch::handler::{
    Handler, HandlerBinding, HandlerConnection, HandlerError, HandlerReply, Step, TypeFilter,
};
use hooklatch::lifecycle;
use hooklatch::source::Source;
use hooklatch::store::Dialect;
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

const CONFIG: &str = r#"
[database]
url = "sqlite://rust_handler.db"
auto_migrate = true

[[source]]
name = "shop"
verify = { scheme = "none" }
event_id = "body:/id"
event_type = "body:/type"
data = "/data"
"#;

/// Legal on both databases, as is the upsert below.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS loyalty_points (customer_id text PRIMARY KEY, points bigint NOT NULL)";
const ADD_POINTS: &str = "INSERT INTO loyalty_points (customer_id, points) VALUES ($1, $2)
    ON CONFLICT (customer_id) DO UPDATE SET points = loyalty_points.points + excluded.points";

/// Gives points for orders.
struct LoyaltyPoints;

#[derive(Deserialize)]
struct Order {
    customer_id: String,
    amount_cents: u32,
}

impl Order {
    /// A point for every full euro; twice as many from a hundred euros on.
    fn points(&self) -> i64 {
        const CENTS_OF_A_EURO: u32 = 100;
        const LARGE_ORDER_EUROS: u32 = 100;
        let euros = self.amount_cents / CENTS_OF_A_EURO;
        i64::from(euros) * if euros >= LARGE_ORDER_EUROS { 2 } else { 1 }
    }
}

#[async_trait]
impl Handler for LoyaltyPoints {
    async fn apply(
        &self,
        mut connection: HandlerConnection<'_>,
        events: &[&Event],
    ) -> Result<Vec<(EventKey, HandlerReply)>, HandlerError> {
        let mut replies = Vec::with_capacity(events.len());
        for event in events {
            // Permanent: the sender is told 422, and the event is kept for a person.
            let order: Order = event
                .data
                .read()
                .map_err(|error| HandlerError::Permanent(format!("this is no order: {error}").into()))?;
            let points = order.points();
            match &mut connection {
                HandlerConnection::Postgres(postgres) => {
                    let add = sqlx::query(ADD_POINTS).bind(&order.customer_id).bind(points);
                    add.execute(&mut **postgres).await?;
                }
                HandlerConnection::Sqlite(sqlite) => {
                    let add = sqlx::query(ADD_POINTS).bind(&order.customer_id).bind(points);
                    add.execute(&mut **sqlite).await?;
                }
            }
            let body = format!(r#"{{"points":{points}}}"#).into_bytes();
            let reply = HandlerReply { status: Some(201), body: Some(body), ..HandlerReply::default() };
            replies.push((event.key.clone(), reply));
        }
        Ok(replies)
    }
}

/// The configured source, with the handler.
fn with_points(source: &Source) -> Arc<Source> {
    let mut source = source.clone();
    source.handlers.push(HandlerBinding {
        on: TypeFilter::new(["order_created"]),
        step: Step::Code(Arc::new(LoyaltyPoints)),
    });
    Arc::new(source)
}

async fn create_table(config: &Config) -> Result<(), sqlx::Error> {
    let url = config.database.url.expose();
    match config.database.url.dialect() {
        Dialect::Postgres => {
            sqlx::query(TABLE).execute(&mut PgConnection::connect(url).await?).await?;
        }
        Dialect::Sqlite => {
            let file = format!("{url}?mode=rwc");
            sqlx::query(TABLE).execute(&mut SqliteConnection::connect(&file).await?).await?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::parse("rust_handler", CONFIG, &Environment::of_process())?;
    create_table(&config).await?;
    let sources = config.run_time_sources().iter().map(|source| with_points(source)).collect();
    let app = App::build(&config, sources, &[Role::Receive, Role::Prune], Clock::system()).await?;
    lifecycle::run(app, |addresses| {
        if let Some(public) = addresses.public {
            println!("public {public}");
        }
    })
    .await?;
    Ok(())
}
