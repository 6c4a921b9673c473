//! The pool, and what stands between us and the server.
//!
//! Behind a proxy that pools transactions no statement depends on a session, because the next
//! transaction may meet another one: nothing is set at connecting that it would refuse or forget, and
//! statements are not prepared once a connection. Elsewhere a session carries the time limits of
//! batches that are one statement.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgTransaction, Postgres, Row};

use super::kept::Kept;
use super::{PostgresStore, classify};
use crate::store::{BatchLimits, StoreError, StoreErrorKind};

const CONNECTING: &str = "connect to the database";

/// Connections that are open at the same time to see whether they share a server session.
const PROBES: usize = 3;

/// How often each of them asks.
const PROBE_ROUNDS: usize = 3;

/// The limits of transactions that are not a batch: an operator's question, pruning, the ledger.
pub(super) const ASIDE: BatchLimits =
    BatchLimits { lock_wait: Duration::from_secs(5), statement: Duration::from_secs(60) };

/// Prepared statements a connection keeps: ours, with room.
const STATEMENT_CACHE: usize = 128;

/// Whether statements are prepared once a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatementCache {
    /// Unless a proxy that pools transactions is found.
    #[default]
    Auto,
    On,
    Off,
}

/// How to connect.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database?sslmode=…`
    pub url: String,
    pub max_connections: u32,
    /// How long to wait for a connection, a new one or one of the pool's.
    pub acquire_timeout: Duration,
    pub statement_cache: StatementCache,
    /// The limits of a batch, so that one can be a single statement. `None`: each is a transaction.
    pub batch_limits: Option<BatchLimits>,
}

impl fmt::Debug for PostgresOptions {
    /// The URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("statement_cache", &self.statement_cache)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, and finds out whether a proxy that pools transactions stands between.
    ///
    /// # Errors
    /// When the URL cannot be read or the database cannot be reached.
    pub async fn connect(options: PostgresOptions) -> Result<Self, StoreError> {
        let connect = connect_options(&options.url)?;
        let prepared = match options.statement_cache {
            StatementCache::On => true,
            StatementCache::Off => false,
            StatementCache::Auto => !sessions_are_shared(&connect, options.acquire_timeout).await?,
        };
        let cache = if prepared { STATEMENT_CACHE } else { 0 };
        // What a session is told holds only while nobody else gets it.
        let session_limits = options.batch_limits.filter(|_| prepared);
        let pool = PoolOptions::new()
            .after_connect(move |connection, _| Box::pin(set_session_limits(connection, session_limits)))
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(options.acquire_timeout)
            // A round trip less a transaction: `begin` meets a lost connection itself.
            .test_before_acquire(false)
            .connect_lazy_with(connect.statement_cache_capacity(cache));
        Ok(Self { pool, prepared, has_session_limits: session_limits.is_some(), kept: Kept::default() })
    }

    /// Opens a transaction. Takes another connection for one that was lost while idle.
    pub(super) async fn transaction(
        &self,
        doing: &'static str,
        limits: BatchLimits,
    ) -> Result<PgTransaction<'static>, StoreError> {
        let begin = begin_statement(limits);
        // All that were idle may be lost: the server has been started again.
        let mut spare = self.pool.options().get_max_connections();
        loop {
            // Safe: the statement is made of our own words and numbers.
            match self.pool.begin_with(AssertSqlSafe(begin.as_str())).await {
                Ok(transaction) => return Ok(transaction),
                Err(error) if classify::is_lost_connection(&error) && spare > 0 => spare -= 1,
                Err(error) => return Err(classify::ours(doing)(error)),
            }
        }
    }

    /// Asks for one value, in one message that needs neither transaction nor session. Takes another
    /// connection for one that was lost while idle.
    pub(super) async fn ask<T>(&self, doing: &'static str, sql: &'static str) -> Result<T, StoreError>
    where
        T: for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
    {
        let mut spare = self.pool.options().get_max_connections();
        loop {
            match self.pool.fetch_one(sql).await.and_then(|row| row.try_get(0)) {
                Ok(value) => return Ok(value),
                Err(error) if classify::is_lost_connection(&error) && spare > 0 => spare -= 1,
                Err(error) => return Err(classify::ours(doing)(error)),
            }
        }
    }

    pub(super) fn query(&self, sql: &'static str) -> Query<'static> {
        sqlx::query(sql).persistent(self.prepared)
    }
}

pub(super) type Query<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

/// One message, one round trip. The isolation level is said because the server's default may be
/// another: what a key has met is read in a statement that must see what others have committed.
/// A transaction that is left idle ends too, so that no key stays locked by a process that hangs.
fn begin_statement(limits: BatchLimits) -> String {
    let lock_wait = milliseconds(limits.lock_wait);
    let statement = milliseconds(limits.statement);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
         SET LOCAL lock_timeout = {lock_wait}; \
         SET LOCAL statement_timeout = {statement}; \
         SET LOCAL idle_in_transaction_session_timeout = {statement}"
    )
}

/// The same for statements that stand alone.
async fn set_session_limits(
    connection: &mut PgConnection,
    limits: Option<BatchLimits>,
) -> Result<(), sqlx::Error> {
    let Some(limits) = limits else { return Ok(()) };
    let set = format!(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE; \
         SET lock_timeout = {}; SET statement_timeout = {}",
        milliseconds(limits.lock_wait),
        milliseconds(limits.statement),
    );
    // Safe: our own words and numbers.
    connection.execute(sqlx::raw_sql(AssertSqlSafe(set))).await.map(drop)
}

/// At least one, because zero would mean no limit.
pub(super) fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}

fn connect_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|_| {
        // The parser's own error may repeat a part of the URL, and so of a password. Waiting does not
        // cure it, so this is not `Unavailable`.
        let hint = "expected postgres://user:password@host:port/database";
        StoreError::new(StoreErrorKind::Data, "read the URL of the database", hint)
    })?;
    // A proxy refuses start-up parameters that it does not know.
    Ok(options.extra_float_digits(None).application_name("hooklatch").disable_statement_logging())
}

/// Whether a proxy gives connections that are open side by side one server session, or one of them
/// several, one after another.
async fn sessions_are_shared(options: &PgConnectOptions, patience: Duration) -> Result<bool, StoreError> {
    let probe = async {
        let mut connections: Vec<PgConnection> = Vec::with_capacity(PROBES);
        for _ in 0..PROBES {
            connections.push(options.connect().await?);
        }
        let mut sessions: Vec<Option<i32>> = vec![None; PROBES];
        let mut shared = false;
        for _ in 0..PROBE_ROUNDS {
            for (place, connection) in connections.iter_mut().enumerate() {
                let session = backend_pid(connection).await?;
                let own = sessions[place].replace(session);
                shared |= own.is_some_and(|own| own != session)
                    || sessions.iter().enumerate().any(|(other, s)| other != place && *s == Some(session));
            }
        }
        for connection in connections {
            connection.close().await?;
        }
        Ok(shared)
    };
    match tokio::time::timeout(patience, probe).await {
        Ok(shared) => shared.map_err(classify::ours(CONNECTING)),
        Err(_) => Err(classify::ours(CONNECTING)(sqlx::Error::PoolTimedOut)),
    }
}

/// One message, so that it needs no session.
async fn backend_pid(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    connection.fetch_one("SELECT pg_backend_pid()").await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_nothing_is_not_no_limit() {
        let none = BatchLimits { lock_wait: Duration::ZERO, statement: Duration::MAX };
        let begin = begin_statement(none);
        assert!(begin.contains("lock_timeout = 1;"), "{begin}");
        assert!(begin.contains("statement_timeout = 2147483647;"), "{begin}");
    }

    #[test]
    fn no_part_of_a_url_that_cannot_be_read_is_repeated() {
        let error = connect_options("postgres://user:hunter2@host:notaport/x").expect_err("no port");
        let told = format!("{error:?}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}
