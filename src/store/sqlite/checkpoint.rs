//! Keeps the write-ahead log short, beside the writer instead of in its way.
//!
//! SQLite by itself copies the log into the database on the commit that makes it long, and that
//! commit pays for it. Here another connection copies while the writer goes on; when the log has
//! grown long, the writer is held for the short rest, and starts the log at its beginning again.
//! Only how long the log grows depends on this, never whether a commit is durable.

use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Row, SqliteConnection};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::writer::Writer;

/// Pages (4 KiB) in the log that are worth copying.
const WORTHWHILE_PAGES: i64 = 2_000;

/// Pages at which the log is to start at its beginning again.
const LONG_LOG_PAGES: i64 = 8_000;

/// Pages at which the writer itself checkpoints, if this task could not.
pub(super) const LAST_RESORT_PAGES: u32 = 64_000;

/// The least time between two looks at the log.
const PAUSE: Duration = Duration::from_millis(50);

/// The task that checkpoints.
#[derive(Debug)]
pub(super) struct Checkpointer {
    cancel: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpointer {
    pub(super) fn start(options: SqliteConnectOptions, writer: Writer) -> Self {
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        let task = tokio::spawn(async move {
            // The task ends by being cancelled.
            cancelled.run_until_cancelled(run(options, writer)).await;
        });
        Self { cancel, task: Mutex::new(Some(task)) }
    }

    pub(super) async fn stop(&self) {
        self.cancel.cancel();
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the checkpoint task failed");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

async fn run(options: SqliteConnectOptions, writer: Writer) {
    let mut connection = None;
    loop {
        writer.committed().await;
        if let Err(error) = look(&options, &mut connection, &writer).await {
            tracing::warn!(%error, "the write-ahead log was not copied; it is tried again");
            connection = None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn look(
    options: &SqliteConnectOptions,
    connection: &mut Option<SqliteConnection>,
    writer: &Writer,
) -> Result<(), sqlx::Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(options.connect().await?),
    };
    let log = checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)").await?;
    if log.pages - log.copied < WORTHWHILE_PAGES {
        return Ok(());
    }
    let log = checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)").await?;
    if log.pages >= LONG_LOG_PAGES {
        let writers_wait = writer.pause().await;
        checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)").await?;
        drop(writers_wait);
    }
    Ok(())
}

struct Log {
    pages: i64,
    copied: i64,
}

async fn checkpoint(connection: &mut SqliteConnection, pragma: &'static str) -> Result<Log, sqlx::Error> {
    let row = sqlx::query(pragma).fetch_one(connection).await?;
    Ok(Log { pages: row.try_get(1)?, copied: row.try_get(2)? })
}
