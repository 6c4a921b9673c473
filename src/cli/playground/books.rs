//! The shop's books: the playground's own look into the database, past the receiver.
//!
//! It plays the customer's application, so it owns the business tables and speaks SQL itself; the
//! story's verdicts rest on what stands in the file, not on what the receiver says.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Row as _};

use super::sender::Order;

/// The business tables of the orders example.
const SCHEMA: &str = include_str!("../../../examples/orders/schema.sqlite.sql");
/// The playground's own. A parcel has no key that could hide a second one.
const OWN_TABLES: &str = "
CREATE TABLE IF NOT EXISTS playground_pace (steps INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS playground_parcels (event_id TEXT NOT NULL, order_id TEXT NOT NULL);
";
/// How long a reader waits for the receiver.
const PATIENCE: Duration = Duration::from_secs(5);
/// What SQLite says when another process is writing.
const SQLITE_BUSY: &str = "5";

/// The database file.
#[derive(Debug)]
pub(super) struct Books {
    options: SqliteConnectOptions,
}

/// What events have left in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effects {
    /// Rows of `processed_events`, but for those of the packing station, which is told of the same events.
    pub(super) keys: i64,
    /// Rows of `orders`.
    pub(super) orders: i64,
    pub(super) amount_cents: i64,
}

/// How far an order has come that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Onward {
    /// Its messages in the outbox that wait.
    pub(super) waiting: i64,
    /// Those that are marked as sent.
    pub(super) sent: i64,
    /// What the packing station has made of it.
    pub(super) parcels: i64,
}

impl Onward {
    pub(super) fn is(self, waiting: i64, sent: i64, parcels: i64) -> bool {
        self == Self { waiting, sent, parcels }
    }
}

impl Books {
    /// Makes the business tables unless they are there.
    pub(super) async fn open(file: &Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new().filename(file).busy_timeout(PATIENCE);
        let books = Self { options };
        let mut connection = books.connect().await?;
        let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'orders'")
            .fetch_one(&mut connection)
            .await?;
        if tables == 0 {
            sqlx::raw_sql(SCHEMA).execute(&mut connection).await?;
        }
        sqlx::raw_sql(OWN_TABLES).execute(&mut connection).await?;
        connection.close().await?;
        books.set_pace(1).await?;
        Ok(books)
    }

    /// How far the slow handler counts.
    pub(super) async fn set_pace(&self, steps: i64) -> Result<(), sqlx::Error> {
        let mut connection = self.connect().await?;
        let mut transaction = connection.begin().await?;
        sqlx::query("DELETE FROM playground_pace").execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO playground_pace (steps) VALUES (?1)")
            .bind(steps)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        connection.close().await
    }

    /// What these events have left.
    pub(super) async fn effects(&self, event_ids: &[&str]) -> Result<Effects, sqlx::Error> {
        let mut connection = self.connect().await?;
        let row = sqlx::query(
            "WITH wanted AS (SELECT value AS id FROM json_each(?1))
             SELECT
                 (SELECT count(*) FROM processed_events
                  WHERE event_id IN (SELECT id FROM wanted) AND consumer <> 'packing') AS keys,
                 count(*) AS orders,
                 coalesce(sum(amount_cents), 0) AS amount_cents
             FROM orders WHERE event_id IN (SELECT id FROM wanted)",
        )
        .bind(serde_json::json!(event_ids).to_string())
        .fetch_one(&mut connection)
        .await?;
        connection.close().await?;
        Ok(Effects {
            keys: row.try_get("keys")?,
            orders: row.try_get("orders")?,
            amount_cents: row.try_get("amount_cents")?,
        })
    }

    /// How far this order has come.
    pub(super) async fn onward(&self, order: &Order) -> Result<Onward, sqlx::Error> {
        let mut connection = self.connect().await?;
        let row = sqlx::query(
            "SELECT
                 (SELECT count(*) FROM outbox WHERE aggregate_id = ?1 AND state <> 'sent') AS waiting,
                 (SELECT count(*) FROM outbox WHERE aggregate_id = ?1 AND state = 'sent') AS sent,
                 (SELECT count(*) FROM playground_parcels WHERE event_id = ?2) AS parcels",
        )
        .bind(order.id.to_string())
        .bind(&order.event_id)
        .fetch_one(&mut connection)
        .await?;
        connection.close().await?;
        Ok(Onward {
            waiting: row.try_get("waiting")?,
            sent: row.try_get("sent")?,
            parcels: row.try_get("parcels")?,
        })
    }

    /// What the packing station has answered to deliveries of this order, in order.
    pub(super) async fn packing_answers(&self, order: &Order) -> Result<Vec<String>, sqlx::Error> {
        let mut connection = self.connect().await?;
        let answers = sqlx::query_scalar(
            "SELECT status || ' ' || outcome FROM deliveries
             WHERE source = 'packing' AND event_id = ?1 ORDER BY delivery_id",
        )
        .bind(&order.event_id)
        .fetch_all(&mut connection)
        .await?;
        connection.close().await?;
        Ok(answers)
    }

    /// Whether a transaction of another process holds the database at this moment.
    pub(super) async fn is_being_written(&self) -> Result<bool, sqlx::Error> {
        let options = self.options.clone().busy_timeout(Duration::ZERO);
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let begun = sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await;
        match begun {
            Ok(_) => {
                sqlx::raw_sql("ROLLBACK").execute(&mut connection).await?;
                connection.close().await?;
                Ok(false)
            }
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(SQLITE_BUSY) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        SqliteConnection::connect_with(&self.options).await
    }
}

impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} key{}, {} order{}", self.keys, plural(self.keys), self.orders, plural(self.orders))
    }
}

impl fmt::Display for Onward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.waiting, self.sent) {
            (1, 0) => f.write_str("message waits")?,
            (0, 1) => f.write_str("message sent")?,
            (waiting, sent) => write!(f, "{waiting} waiting, {sent} sent")?,
        }
        write!(f, "\n{} parcel{}", self.parcels, plural(self.parcels))
    }
}

fn plural(n: i64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_read_like_a_sentence() {
        let none = Effects { keys: 0, orders: 0, amount_cents: 0 };
        let one = Effects { keys: 1, orders: 1, amount_cents: 4_905 };
        assert_eq!(none.to_string(), "0 keys, 0 orders");
        assert_eq!(one.to_string(), "1 key, 1 order");
        let onward = Onward { waiting: 1, sent: 0, parcels: 2 };
        assert_eq!(onward.to_string(), "message waits\n2 parcels");
    }
}
