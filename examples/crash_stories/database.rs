//! A sender's database, as the documents' applications use it: a table of orders, and a table of messages
//! with a mark. Knows both dialects; what hooklatch's own outbox looks like is the library's matter.

use std::time::Duration;

use hooklatch::handler::HandlerConnection;
use hooklatch::outbox::{Message, enqueue};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

use super::Failure;

/// How long SQLite waits for another process.
const PATIENCE: Duration = Duration::from_secs(20);

/// Legal on both.
const ORDERS: &str = "CREATE TABLE orders (id text PRIMARY KEY)";
const OUTBOX: &str = "CREATE TABLE outbox (id text PRIMARY KEY, place bigint NOT NULL, payload text NOT NULL, sent_at timestamp)";

/// An open connection.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Where an order's event is written, in the order's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    /// Nowhere.
    None,
    /// The table above.
    Own,
    /// hooklatch's.
    Hooklatch,
}

impl Database {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        Ok(match url.strip_prefix("sqlite://") {
            Some(file) => {
                let options =
                    SqliteConnectOptions::new().filename(file).create_if_missing(true).busy_timeout(PATIENCE);
                Self::Sqlite(SqliteConnection::connect_with(&options).await?)
            }
            None => Self::Postgres(PgConnection::connect(url).await?),
        })
    }

    /// The business table, and the table of messages of those who bring their own.
    pub(crate) async fn create_tables(&mut self, outbox: Outbox) -> Result<(), Failure> {
        self.execute(ORDERS, &[]).await?;
        if outbox == Outbox::Own {
            self.execute(OUTBOX, &[]).await?;
        }
        Ok(())
    }

    /// Order and event in one transaction, which is committed or not.
    pub(crate) async fn place(
        &mut self,
        number: usize,
        (order, event): (&str, &str),
        outbox: Outbox,
        commit: bool,
    ) -> Result<(), Failure> {
        self.begin().await?;
        self.execute("INSERT INTO orders (id) VALUES ($1)", &[order]).await?;
        let payload = serde_json::json!({"id": event, "order_id": order}).to_string();
        match outbox {
            Outbox::None => {}
            Outbox::Own => {
                let insert = "INSERT INTO outbox (id, place, payload) VALUES ($1, CAST($2 AS bigint), $3)";
                self.execute(insert, &[event, &number.to_string(), &payload]).await?;
            }
            Outbox::Hooklatch => {
                let message = Message::new("consumer", payload);
                enqueue(&mut self.transaction(), &message).await?;
            }
        }
        self.execute(if commit { "COMMIT" } else { "ROLLBACK" }, &[]).await?;
        Ok(())
    }

    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        let begin = match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN",
        };
        self.execute(begin, &[]).await.map(drop)
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Failure> {
        self.execute("COMMIT", &[]).await.map(drop)
    }

    /// Ids and payloads of messages without a mark, the oldest first. Under a transaction they are its own.
    pub(crate) async fn pending(&mut self, most: usize) -> Result<Vec<(String, String)>, Failure> {
        const PENDING: &str = "SELECT id, payload FROM outbox WHERE sent_at IS NULL ORDER BY place LIMIT ";
        Ok(match self {
            // Differs because SQLite locks the whole database.
            Self::Sqlite(sqlite) => {
                sqlx::query_as(AssertSqlSafe(format!("{PENDING}{most}"))).fetch_all(sqlite).await?
            }
            Self::Postgres(postgres) => {
                let locking = format!("{PENDING}{most} FOR UPDATE SKIP LOCKED");
                sqlx::query_as(AssertSqlSafe(locking)).fetch_all(postgres).await?
            }
        })
    }

    pub(crate) async fn mark(&mut self, id: &str) -> Result<(), Failure> {
        self.execute("UPDATE outbox SET sent_at = CURRENT_TIMESTAMP WHERE id = $1", &[id]).await.map(drop)
    }

    /// Messages in hooklatch's outbox: all, and those that were sent.
    pub(crate) async fn hooklatch_messages(&mut self) -> Result<(usize, usize), Failure> {
        let outbox = self.hooklatch_outbox();
        let all = self.number(&format!("SELECT count(*) FROM {outbox}")).await?;
        let sent = self.number(&format!("SELECT count(*) FROM {outbox} WHERE state = 'sent'")).await?;
        Ok((all, sent))
    }

    /// Ends the leases of a killed relay now. It comes to the same as waiting for their end, which nobody
    /// likes to.
    pub(crate) async fn end_leases(&mut self) -> Result<(), Failure> {
        let outbox = self.hooklatch_outbox();
        let end = "leased_until = created_at, next_attempt_at = created_at";
        self.execute(&format!("UPDATE {outbox} SET {end} WHERE lease_token IS NOT NULL"), &[]).await?;
        Ok(())
    }

    fn hooklatch_outbox(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "outbox",
            Self::Postgres(_) => "hooklatch.outbox",
        }
    }

    pub(crate) async fn number(&mut self, sql: &str) -> Result<usize, Failure> {
        let number: i64 = match self {
            Self::Sqlite(sqlite) => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(sqlite).await?,
            Self::Postgres(postgres) => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(postgres).await?,
        };
        Ok(usize::try_from(number)?)
    }

    /// Runs a statement; returns how many rows it touched.
    pub(crate) async fn execute(&mut self, sql: &str, texts: &[&str]) -> Result<u64, Failure> {
        Ok(match self {
            Self::Sqlite(sqlite) => {
                let query =
                    texts.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, text| query.bind(*text));
                query.execute(sqlite).await?.rows_affected()
            }
            Self::Postgres(postgres) => {
                let query =
                    texts.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, text| query.bind(*text));
                query.execute(postgres).await?.rows_affected()
            }
        })
    }

    /// The open transaction, as the library takes it.
    fn transaction(&mut self) -> HandlerConnection<'_> {
        match self {
            Self::Sqlite(sqlite) => HandlerConnection::Sqlite(sqlite),
            Self::Postgres(postgres) => HandlerConnection::Postgres(postgres),
        }
    }
}
