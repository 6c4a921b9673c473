//! Where the stories are played: a database for each, made for it and removed with it. What is left when
//! the stories end, however they end, is removed then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hooklatch::clock;
use tempfile::TempDir;
use tokio::sync::RwLock;
use tokio::time::timeout;

use super::Failure;
use super::database::Database;

/// How long clearing up waits for the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory for SQLite files, or a PostgreSQL server.
#[derive(Debug)]
pub(crate) enum Stage {
    Sqlite(TempDir),
    Postgres {
        url: String,
        /// The databases that are there, by name.
        made: Mutex<Vec<String>>,
        /// Held for reading while one is made: the server finishes that, interrupted or not.
        making: Arc<RwLock<()>>,
    },
}

impl Stage {
    /// PostgreSQL if `DATABASE_URL` names one, else SQLite.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        match std::env::var("DATABASE_URL") {
            Ok(url) if url.starts_with("postgres") => {
                Ok(Self::Postgres { url, made: Mutex::default(), making: Arc::default() })
            }
            Ok(_) => Err("DATABASE_URL is no postgres:// URL; unset it to use embedded SQLite".into()),
            Err(_) => Ok(Self::Sqlite(TempDir::new()?)),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "embedded SQLite",
            Self::Postgres { .. } => "PostgreSQL",
        }
    }

    /// An empty database that nobody else has; its URL.
    pub(crate) async fn database(&self) -> Result<String, Failure> {
        let name = format!("crash_stories_{}", clock::new_id().simple());
        match self {
            Self::Sqlite(directory) => Ok(format!("sqlite://{}.db", directory.path().join(name).display())),
            Self::Postgres { url, made, making } => {
                made.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
                // template0 is never in use, so that stories may begin at the same moment.
                let create = format!("CREATE DATABASE {name} TEMPLATE template0");
                let (server, making) = (url.clone(), making.clone().read_owned().await);
                // Goes on if nobody waits for it any more.
                let creating = tokio::spawn(async move {
                    let _making = making;
                    Database::open(&server).await?.execute(&create, &[]).await.map(drop)
                });
                creating.await??;
                Ok(with_database(url, &name))
            }
        }
    }

    /// Drops what [`Stage::database`] made. Files go with their directory.
    pub(crate) async fn remove(&self, database: &str) -> Result<(), Failure> {
        if let Self::Postgres { url, made, .. } = self {
            let name = database_of(database);
            drop_database(url, name).await?;
            made.lock().unwrap_or_else(PoisonError::into_inner).retain(|made| made != name);
        }
        Ok(())
    }

    /// Drops whatever is still there: a story has failed, or somebody has had enough.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        if let Self::Postgres { url, made, making } = self {
            let _made = timeout(PATIENCE, making.write()).await;
            let left = std::mem::take(&mut *made.lock().unwrap_or_else(PoisonError::into_inner));
            for name in &left {
                let dropped = timeout(PATIENCE, drop_database(url, name)).await;
                if let Err(error) = dropped.map_err(Failure::from).flatten() {
                    return Err(format!("drop {} by hand: {error}", left.join(", ")).into());
                }
            }
        }
        Ok(())
    }
}

async fn drop_database(url: &str, name: &str) -> Result<(), Failure> {
    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    Database::open(url).await?.execute(&drop, &[]).await?;
    Ok(())
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> String {
    let (place, options) = url.split_once('?').map_or((url, None), |(place, rest)| (place, Some(rest)));
    let server_from = place.find("://").map_or(0, |at| at + "://".len());
    let server = place[server_from..].find('/').map_or(place, |at| &place[..server_from + at]);
    match options {
        Some(options) => format!("{server}/{name}?{options}"),
        None => format!("{server}/{name}"),
    }
}

fn database_of(url: &str) -> &str {
    let place = url.split_once('?').map_or(url, |(place, _)| place);
    place.rsplit_once('/').map_or(place, |(_, name)| name)
}
