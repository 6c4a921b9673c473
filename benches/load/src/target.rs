//! The targets: who does the job, on which database, started how.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::process::free_address;

/// Worker processes of the Python peer, and connections of each.
const PYTHON_WORKERS: &str = "2";
const PYTHON_POOL: &str = "16";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    Hooklatch,
    #[serde(rename = "plain-16")]
    Plain16,
    #[serde(rename = "plain-32")]
    Plain32,
    PlainAnswerFirst,
    Python,
    Pgbench,
    HttpOnly,
    HooklatchSqlite,
    PlainSqlite,
}

/// Where a target keeps its events, and in which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    /// hooklatch's own schema.
    PostgresOwn,
    /// The peers' table.
    PostgresPeer,
    SqliteOwn,
    SqlitePeer,
    None,
}

impl Target {
    pub(crate) const ALL: [Self; 9] = [
        Self::Hooklatch,
        Self::Plain16,
        Self::Plain32,
        Self::PlainAnswerFirst,
        Self::Python,
        Self::Pgbench,
        Self::HttpOnly,
        Self::HooklatchSqlite,
        Self::PlainSqlite,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hooklatch => "hooklatch",
            Self::Plain16 => "plain-16",
            Self::Plain32 => "plain-32",
            Self::PlainAnswerFirst => "plain-answer-first",
            Self::Python => "python",
            Self::Pgbench => "pgbench",
            Self::HttpOnly => "http-only",
            Self::HooklatchSqlite => "hooklatch-sqlite",
            Self::PlainSqlite => "plain-sqlite",
        }
    }

    pub(crate) fn database(self) -> Database {
        match self {
            Self::Hooklatch => Database::PostgresOwn,
            Self::Plain16 | Self::Plain32 | Self::PlainAnswerFirst | Self::Python | Self::Pgbench => {
                Database::PostgresPeer
            }
            Self::HooklatchSqlite => Database::SqliteOwn,
            Self::PlainSqlite => Database::SqlitePeer,
            Self::HttpOnly => Database::None,
        }
    }

    pub(crate) fn uses_postgres(self) -> bool {
        matches!(self.database(), Database::PostgresOwn | Database::PostgresPeer)
    }

    pub(crate) fn is_hooklatch(self) -> bool {
        matches!(self, Self::Hooklatch | Self::HooklatchSqlite)
    }

    /// One of those that ratios are taken against: the best of them counts.
    pub(crate) fn is_baseline(self) -> bool {
        matches!(self, Self::Plain16 | Self::Plain32 | Self::PlainSqlite)
    }

    pub(crate) fn is_of_interest_at(self, connections: usize) -> bool {
        match self {
            // More clients than the default `max_connections` is nobody's database.
            Self::Pgbench => connections <= 64,
            Self::HttpOnly | Self::PlainAnswerFirst => matches!(connections, 64 | 256),
            _ => true,
        }
    }
}

/// What starting a target needs to know.
#[derive(Debug)]
pub(crate) struct Workshop {
    /// The repository.
    pub(crate) root: PathBuf,
    pub(crate) hooklatch: Option<PathBuf>,
    /// The Python peer's virtual environment.
    pub(crate) python: Option<PathBuf>,
    /// In standard-webhooks' notation.
    pub(crate) secret: String,
}

/// A command that serves on an address.
pub(crate) struct Launch {
    pub(crate) command: Command,
    pub(crate) address: SocketAddr,
    /// To be run, and to succeed, before it.
    pub(crate) before: Option<Command>,
}

impl Workshop {
    pub(crate) fn benches(&self) -> PathBuf {
        self.root.join("benches")
    }

    /// How to start a target on a database: a URL, or a SQLite file.
    pub(crate) fn launch(&self, target: Target, database: &str) -> Result<Launch> {
        let address = free_address()?;
        match target {
            Target::Hooklatch => self.launch_hooklatch(database, address),
            Target::HooklatchSqlite => self.launch_hooklatch(&format!("sqlite://{database}"), address),
            Target::Python => self.launch_python(database, address),
            _ => self.launch_plain(target, database, address),
        }
    }

    fn launch_hooklatch(&self, url: &str, address: SocketAddr) -> Result<Launch> {
        let Some(program) = &self.hooklatch else { anyhow::bail!("there is no hooklatch binary") };
        let admin = free_address()?;
        let command = |subcommand| {
            let mut command = Command::new(program);
            command
                .args([subcommand, "--config"])
                .arg(self.benches().join("hooklatch.toml"))
                .env("BENCH_SECRET", &self.secret)
                .env("HOOKLATCH__DATABASE__URL", url)
                .env("HOOKLATCH__HTTP__LISTEN", address.to_string())
                .env("HOOKLATCH__ADMIN__LISTEN", admin.to_string());
            command
        };
        Ok(Launch { command: command("serve"), address, before: Some(command("migrate")) })
    }

    fn launch_plain(&self, target: Target, database: &str, address: SocketAddr) -> Result<Launch> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["plain", "--port", &address.port().to_string()])
            .env("BENCH_SECRET", &self.secret)
            .env("BENCH_DATABASE_URL", database);
        match target {
            Target::Plain16 => command.args(["--pool", "16"]),
            Target::PlainAnswerFirst => command.args(["--pool", "32", "--answer-first"]),
            Target::PlainSqlite => command.args(["--sqlite", database]),
            Target::HttpOnly => &mut command,
            _ => command.args(["--pool", "32"]),
        };
        Ok(Launch { command, address, before: None })
    }

    fn launch_python(&self, url: &str, address: SocketAddr) -> Result<Launch> {
        let Some(environment) = &self.python else { anyhow::bail!("there is no Python environment") };
        let uvicorn = environment.join("bin/uvicorn");
        ensure!(uvicorn.exists(), "{} is missing", uvicorn.display());
        let mut command = Command::new(uvicorn);
        command
            .args(["receiver:app", "--host", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--workers", PYTHON_WORKERS, "--no-access-log", "--log-level", "warning"])
            .current_dir(python_peer(&self.root))
            .env("BENCH_SECRET", &self.secret)
            .env("BENCH_DATABASE_URL", url)
            .env("BENCH_POOL", PYTHON_POOL);
        Ok(Launch { command, address, before: None })
    }
}

/// Where the Python peer lives.
pub(crate) fn python_peer(root: &Path) -> PathBuf {
    root.join("benches/peers/python")
}
