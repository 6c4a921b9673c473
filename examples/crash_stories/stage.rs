//! Where the stories are played: a database for each, made for it and removed with it.

use hooklatch::clock;
use tempfile::TempDir;

use super::Failure;
use super::database::Database;

/// A directory for SQLite files, or a PostgreSQL server.
#[derive(Debug)]
pub(crate) enum Stage {
    Sqlite(TempDir),
    Postgres { url: String },
}

impl Stage {
    /// PostgreSQL if `DATABASE_URL` names one, else SQLite.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        match std::env::var("DATABASE_URL") {
            Ok(url) if url.starts_with("postgres") => Ok(Self::Postgres { url }),
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
            Self::Postgres { url } => {
                // template0 is never in use, so that stories may begin at the same moment.
                let create = format!("CREATE DATABASE {name} TEMPLATE template0");
                Database::open(url).await?.execute(&create, &[]).await?;
                Ok(with_database(url, &name))
            }
        }
    }

    /// Drops what [`Stage::database`] made. Files go with their directory.
    pub(crate) async fn remove(&self, database: &str) -> Result<(), Failure> {
        if let Self::Postgres { url } = self {
            let name = database_of(database);
            Database::open(url).await?.execute(&format!("DROP DATABASE {name} WITH (FORCE)"), &[]).await?;
        }
        Ok(())
    }
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
