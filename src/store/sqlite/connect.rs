//! Opening the file: what it is, how its connections are set, and the first look whether it can be
//! written.
//!
//! The file is made if it is missing, readable by its owner only, because it keeps what senders
//! sent. Refuses what could not keep the promises: a database in memory, a directory, a file that
//! cannot be written, a file system without a write-ahead log.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::SqliteStore;
use super::checkpoint::{self, Checkpointer};
use super::writer::Writer;
use crate::clock::Clock;
use crate::store::{StoreError, StoreErrorKind};

/// Connections for readers: the readiness probe, gauges and an operator's questions.
const READERS: u32 = 2;

/// How long a transaction of ours that is not a batch waits for another process's.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Prepared statements a connection keeps: ours and those of many handlers.
const STATEMENT_CACHE: usize = 512;

/// Page cache of a connection, in KiB (negative: the pragma then counts KiB, not pages).
const CACHE_KIB: i32 = -32_768;

const OPENING: &str = "open the database file";

impl SqliteStore {
    /// Opens the database that `url` names, as in `sqlite://hooklatch.db`.
    ///
    /// # Errors
    /// When the URL names no file that can be written.
    pub async fn connect(url: &str, clock: Clock) -> Result<Self, StoreError> {
        let options = options(url)?;
        create(options.get_filename())?;
        let writer = Writer::new(options.clone());
        let mode = writer.probe().await.map_err(|error| explain(&options, &error))?;
        if mode != "wal" {
            return Err(refusal(format!(
                "{} keeps no write-ahead log (journal mode {mode}): put the file on a local disk",
                options.get_filename().display()
            )));
        }
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(PATIENCE)
            .connect_lazy_with(options.clone().read_only(true));
        let checkpointer = Checkpointer::start(options, writer.clone());
        Ok(Self { clock, writer, readers, checkpointer })
    }
}

/// The file that a URL names; `None` when it is no SQLite URL.
#[must_use]
pub fn file_of(url: &str) -> Option<PathBuf> {
    url.starts_with("sqlite:")
        .then(|| SqliteConnectOptions::from_str(url).ok())
        .flatten()
        .map(|options| options.get_filename().to_path_buf())
}

/// Whether a database that is not there could be made: tried with a file beside it, which does not stay.
///
/// # Errors
/// What is in the way.
pub fn try_to_make(path: &Path) -> Result<(), StoreError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".check");
    let beside = PathBuf::from(beside);
    create(&beside)?;
    std::fs::remove_file(&beside).map_err(|error| refusal(format!("{}: {error}", beside.display())))
}

fn options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(refusal("a database in memory forgets every event at exit: name a file".to_owned()));
    }
    let options = SqliteConnectOptions::from_str(url).map_err(|error| {
        StoreError::new(StoreErrorKind::Unavailable, "read the URL of the database", error)
    })?;
    Ok(options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(PATIENCE)
        .statement_cache_capacity(STATEMENT_CACHE)
        .pragma("cache_size", CACHE_KIB.to_string())
        .pragma("wal_autocheckpoint", checkpoint::LAST_RESORT_PAGES.to_string()))
}

/// Makes the file if it is missing; a first look at what is in the way.
fn create(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Err(refusal(format!("{} is a directory: name a file in it", path.display())));
    }
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).map(drop).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => ": make its directory first",
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                ": it must be writable, and its directory too"
            }
            _ => "",
        };
        refusal(format!("{}: {error}{hint}", path.display()))
    })
}

/// Says which file could not be opened.
fn explain(options: &SqliteConnectOptions, error: &StoreError) -> StoreError {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    StoreError::new(error.kind, OPENING, format!("{}: {cause}", options.get_filename().display()))
}

fn refusal(reason: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, OPENING, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    /// What is wrong with a URL, in the words an operator reads.
    async fn refused(url: &str) -> String {
        let error = SqliteStore::connect(url, Clock::system()).await.expect_err("refused");
        assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error:?}");
        std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
    }

    #[tokio::test]
    async fn what_cannot_keep_events_is_refused_with_the_way_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path().display();
        assert!(refused("sqlite::memory:").await.contains("name a file"));
        assert!(refused("sqlite://inbox.db?mode=memory").await.contains("name a file"));
        assert!(refused(&format!("sqlite://{here}")).await.contains("is a directory"));
        assert!(refused(&format!("sqlite://{here}/no/inbox.db")).await.contains("make its directory first"));
        std::fs::write(directory.path().join("text"), "no database, but long enough to be one ".repeat(99))
            .expect("writes");
        assert!(refused(&format!("sqlite://{here}/text")).await.contains("not a database"));
        assert!(!refused(&format!("sqlite://{here}/x.db?nonsense=1")).await.is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_can_read_a_new_file() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite://{}/inbox.db", directory.path().display());
        let store = SqliteStore::connect(&url, Clock::system()).await.expect("opens");
        store.migrate().await.expect("migrates");
        for file in ["inbox.db", "inbox.db-wal"] {
            let metadata = std::fs::metadata(directory.path().join(file)).expect("a file");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
        }
    }
}
