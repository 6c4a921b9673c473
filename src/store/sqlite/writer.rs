//! The one connection that writes, and the lease on it that is a transaction.
//!
//! Everybody in this process who writes waits here in order of arrival; a writer of another process
//! is waited for by SQLite's busy timeout. A lease that is dropped is rolled back before the next
//! one begins, also when its future was cancelled half way. Does not use sqlx's own transactions:
//! some errors (a full disk, an interrupt) make SQLite roll back by itself, which those do not
//! expect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection};
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};

use super::classify;
use crate::store::{StoreError, StoreErrorKind};

/// Virtual machine instructions between two looks at the clock: well under a millisecond of work.
const INSTRUCTIONS_PER_LOOK: i32 = 10_000;

/// How often a switch to the write-ahead log is tried while another process does the same.
const OPEN_ATTEMPTS: u32 = 50;
const OPEN_RETRY: Duration = Duration::from_millis(40);

const OPENING: &str = "open the database file";
const BEGINNING: &str = "begin a transaction";

/// Hands out the connection that writes.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    slot: Arc<Mutex<Slot>>,
    /// Told of every commit.
    committed: Arc<Notify>,
}

#[derive(Debug)]
struct Slot {
    options: SqliteConnectOptions,
    /// `None`: not opened yet, or broken and to be opened again.
    connection: Option<SqliteConnection>,
    watchdog: Arc<Watchdog>,
    busy_timeout: Duration,
    closed: bool,
}

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        let slot = Slot {
            busy_timeout: super::connect::PATIENCE,
            options,
            connection: None,
            watchdog: Arc::new(Watchdog::new()),
            closed: false,
        };
        Self { slot: Arc::new(Mutex::new(slot)), committed: Arc::default() }
    }

    /// Waits for the connection and begins a transaction that may write. `statement`: how long
    /// each of its statements may run.
    pub(super) async fn begin(
        &self,
        lock_wait: Duration,
        statement: Option<Duration>,
    ) -> Result<Lease, StoreError> {
        let slot = tokio::time::timeout(lock_wait, self.slot.clone().lock_owned()).await.map_err(|_| {
            StoreError::new(StoreErrorKind::LockTimeout, BEGINNING, "other transactions did not end in time")
        })?;
        let mut lease = Lease {
            slot: Some(slot),
            committed: self.committed.clone(),
            statement_limit: statement,
            has_failed: false,
        };
        let slot = lease.slot();
        slot.open().await?;
        slot.wait_for_others(lock_wait).await.map_err(classify::ours(BEGINNING))?;
        slot.run("BEGIN IMMEDIATE").await.map_err(classify::ours(BEGINNING))?;
        Ok(lease)
    }

    /// Opens the connection, and sees whether the file can be written and how its journal is kept.
    /// That somebody else is writing is no obstacle.
    pub(super) async fn probe(&self) -> Result<String, StoreError> {
        let mut slot = self.slot.lock().await;
        slot.open().await?;
        slot.wait_for_others(Duration::ZERO).await.map_err(classify::ours(OPENING))?;
        match slot.run("BEGIN IMMEDIATE").await.map_err(classify::ours(OPENING)) {
            Ok(()) => slot.roll_back().await,
            Err(error) if error.kind == StoreErrorKind::LockTimeout => {}
            Err(error) => return Err(error),
        }
        let connection = slot.connection.as_mut().ok_or(sqlx::Error::PoolClosed);
        let connection = connection.map_err(classify::ours(OPENING))?;
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(connection).await.map_err(classify::ours(OPENING))
    }

    /// Keeps writers of this process out, without a transaction.
    pub(super) async fn pause(&self) -> impl Drop {
        self.slot.clone().lock_owned().await
    }

    /// Ends when a transaction has been committed since it was last awaited.
    pub(super) async fn committed(&self) {
        self.committed.notified().await;
    }

    /// Waits for the open transaction and closes the connection for good.
    pub(super) async fn close(&self) {
        let mut slot = self.slot.lock().await;
        slot.closed = true;
        if let Some(connection) = slot.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database file was not closed cleanly; its log is kept");
        }
    }
}

impl Slot {
    async fn open(&mut self) -> Result<(), StoreError> {
        if self.closed {
            return Err(StoreError::new(StoreErrorKind::Unavailable, BEGINNING, "the store is closed"));
        }
        let mut attempt = 1;
        while self.connection.is_none() {
            match self.connect().await {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => {
                    let error = classify::ours(OPENING)(error);
                    // SQLite does not wait for another process that is switching to the log.
                    if error.kind != StoreErrorKind::LockTimeout || attempt == OPEN_ATTEMPTS {
                        return Err(error);
                    }
                    attempt += 1;
                    tokio::time::sleep(OPEN_RETRY).await;
                }
            }
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<SqliteConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let watchdog = self.watchdog.clone();
        connection
            .lock_handle()
            .await?
            .set_progress_handler(INSTRUCTIONS_PER_LOOK, move || !watchdog.is_over());
        self.busy_timeout = super::connect::PATIENCE;
        Ok(connection)
    }

    /// How long SQLite waits for a writer of another process.
    async fn wait_for_others(&mut self, wait: Duration) -> Result<(), sqlx::Error> {
        if wait != self.busy_timeout {
            let connection = self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)?;
            sqlx::query(sqlx::AssertSqlSafe(format!("PRAGMA busy_timeout = {}", wait.as_millis())))
                .persistent(false)
                .execute(connection)
                .await?;
            self.busy_timeout = wait;
        }
        Ok(())
    }

    /// Runs a statement that has no limit of time.
    async fn run(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        self.watchdog.rest();
        let connection = self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        let result = sqlx::query(sql).execute(connection).await;
        if result.as_ref().is_err_and(classify::is_broken) {
            self.connection = None;
        }
        result.map(drop)
    }

    async fn roll_back(&mut self) {
        if self.connection.is_none() {
            return;
        }
        if let Err(error) = self.run("ROLLBACK").await {
            // SQLite has done it by itself, or the transaction never began.
            let is_none_open =
                matches!(&error, sqlx::Error::Database(e) if e.message().contains("no transaction"));
            if !is_none_open {
                tracing::warn!(%error, "a rollback failed; the database file is opened again");
                self.connection = None;
            }
        }
    }
}

/// The connection that writes, with a transaction open.
#[derive(Debug)]
pub(super) struct Lease {
    /// `None`: over.
    slot: Option<OwnedMutexGuard<Slot>>,
    committed: Arc<Notify>,
    statement_limit: Option<Duration>,
    /// A statement of ours failed: SQLite may have rolled back, and what followed would stand alone.
    has_failed: bool,
}

impl Lease {
    /// Runs one of our own statements and returns its rows.
    pub(super) async fn fetch(
        &mut self,
        doing: &'static str,
        query: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        self.check(doing)?;
        let result = query.fetch_all(self.statement()).await;
        self.has_failed = result.is_err();
        result.map_err(classify::ours(doing))
    }

    /// Runs one of our own statements and returns how many rows it changed.
    pub(super) async fn execute(
        &mut self,
        doing: &'static str,
        query: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<u64, StoreError> {
        self.check(doing)?;
        let result = query.execute(self.statement()).await;
        self.has_failed = result.is_err();
        result.map(|done| done.rows_affected()).map_err(classify::ours(doing))
    }

    fn check(&self, doing: &'static str) -> Result<(), StoreError> {
        if self.has_failed {
            let cause = "the transaction has failed before: begin another";
            return Err(StoreError::new(StoreErrorKind::Unavailable, doing, cause));
        }
        Ok(())
    }

    /// The connection, for one statement: its time begins now.
    pub(super) fn statement(&mut self) -> &mut SqliteConnection {
        let limit = self.statement_limit;
        let slot = self.slot();
        match limit {
            Some(limit) => slot.watchdog.watch(limit),
            None => slot.watchdog.rest(),
        }
        slot.connection.as_mut().expect("a lease holds an open connection until it is over")
    }

    pub(super) async fn commit(mut self) -> Result<(), StoreError> {
        self.check("commit")?;
        self.slot().run("COMMIT").await.map_err(classify::ours("commit"))?;
        self.slot = None;
        self.committed.notify_one();
        Ok(())
    }

    fn slot(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("only the last call on a lease takes its slot")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move { slot.roll_back().await });
            }
            // Without a runtime nobody else waits: closing the connection rolls back.
            Err(_) => slot.connection = None,
        }
    }
}

/// Says when the running statement has taken too long.
#[derive(Debug)]
struct Watchdog {
    origin: Instant,
    /// Microseconds after `origin`; `u64::MAX`: never.
    deadline: AtomicU64,
}

impl Watchdog {
    fn new() -> Self {
        Self { origin: Instant::now(), deadline: AtomicU64::new(u64::MAX) }
    }

    fn watch(&self, limit: Duration) {
        let deadline = u64::try_from((self.origin.elapsed() + limit).as_micros()).unwrap_or(u64::MAX);
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    fn rest(&self) {
        self.deadline.store(u64::MAX, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        deadline != u64::MAX && self.origin.elapsed().as_micros() > u128::from(deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    async fn writer() -> (Writer, tempfile::TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite://{}/w.db?mode=rwc", directory.path().display());
        let writer = Writer::new(SqliteConnectOptions::from_str(&url).expect("a URL"));
        let mut lease = writer.begin(WAIT, None).await.expect("begins");
        lease.execute("create", sqlx::query("CREATE TABLE t (x INTEGER UNIQUE)")).await.expect("creates");
        lease.commit().await.expect("commits");
        (writer, directory)
    }

    async fn rows(writer: &Writer) -> i64 {
        let mut lease = writer.begin(WAIT, None).await.expect("begins");
        sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(lease.statement()).await.expect("counts")
    }

    #[tokio::test]
    async fn after_a_rollback_of_sqlites_own_nothing_more_is_written() {
        let (writer, _directory) = writer().await;
        let mut lease = writer.begin(WAIT, None).await.expect("begins");
        lease.execute("insert", sqlx::query("INSERT INTO t VALUES (1)")).await.expect("inserts");
        let rolls_back = sqlx::query("INSERT OR ROLLBACK INTO t VALUES (1)");
        lease.execute("insert", rolls_back).await.expect_err("not unique");
        // Without a transaction this would stand alone.
        lease.execute("insert", sqlx::query("INSERT INTO t VALUES (2)")).await.expect_err("refused");
        lease.commit().await.expect_err("nothing to commit");
        assert_eq!(rows(&writer).await, 0);
    }

    #[tokio::test]
    async fn a_stopped_statement_leaves_a_connection_of_use() {
        let (writer, _directory) = writer().await;
        for _ in 0..3 {
            let mut lease = writer.begin(WAIT, Some(Duration::from_millis(50))).await.expect("begins");
            let endless = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n)
                INSERT INTO t SELECT count(*) FROM n";
            let error = lease.execute("insert", sqlx::query(endless)).await.expect_err("stopped");
            assert_eq!(error.kind, StoreErrorKind::StatementTimeout);
        }
        assert_eq!(rows(&writer).await, 0);
    }

    #[tokio::test]
    async fn a_lease_dropped_by_a_thread_without_a_runtime_is_rolled_back() {
        let (writer, _directory) = writer().await;
        let mut lease = writer.begin(WAIT, None).await.expect("begins");
        lease.execute("insert", sqlx::query("INSERT INTO t VALUES (1)")).await.expect("inserts");
        std::thread::spawn(move || drop(lease)).join().expect("no panic");
        assert_eq!(rows(&writer).await, 0);
    }
}
