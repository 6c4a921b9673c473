//! `[database]`: where the inbox is kept.
//!
//! A database URL may carry a password. It never shows in `Debug`, `Display` or an error.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secret::Secret;
use crate::store::Dialect;

use super::duration;
use super::environment::Environment;
use super::report::Report;
use super::secret_ref::SecretRef;

/// The database as the configuration writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseSection {
    /// `sqlite://PATH` or `postgres://…`.
    pub url: SecretRef,
    /// Connections to PostgreSQL at a time. SQLite has one writer and a few readers.
    pub max_connections: u32,
    /// How long to wait for a connection before the delivery is answered 503.
    #[serde(with = "duration")]
    pub acquire_timeout: Duration,
    /// Whether prepared statements are kept on PostgreSQL.
    pub statement_cache: StatementCache,
    /// Whether `serve` applies missing migrations. Unset: on SQLite yes, on PostgreSQL no.
    pub auto_migrate: Option<bool>,
}

/// Whether prepared statements are kept across transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatementCache {
    /// Unless a transaction-pooling proxy is detected.
    #[default]
    Auto,
    On,
    /// For a proxy that gives each transaction another server connection.
    Off,
}

impl Default for DatabaseSection {
    fn default() -> Self {
        Self {
            url: SecretRef::parse("sqlite://hooklatch.db"),
            max_connections: 10,
            acquire_timeout: Duration::from_secs(3),
            statement_cache: StatementCache::Auto,
            auto_migrate: None,
        }
    }
}

/// The database, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub url: DatabaseUrl,
    pub max_connections: u32,
    pub acquire_timeout: Duration,
    pub statement_cache: StatementCache,
    pub auto_migrate: bool,
}

impl DatabaseSection {
    /// `None` after an error was reported.
    pub(super) fn resolve(&self, environment: &Environment, report: &mut Report) -> Option<Database> {
        if self.max_connections < MIN_CONNECTIONS {
            report.error(
                "database.max_connections",
                format!(
                    "the writer, the ledger and the pruner each need one; write at least {MIN_CONNECTIONS}"
                ),
            );
        }
        let url = match self.url.resolve(environment) {
            Ok(secret) => secret,
            Err(message) => {
                report.error("database.url", message);
                return None;
            }
        };
        let url = match DatabaseUrl::parse(url) {
            Ok(url) => url,
            Err(message) => {
                report.error("database.url", message);
                return None;
            }
        };
        if self.url.is_literal() && url.carries_password() {
            report.warn(
                "database.url",
                "the password stands in the configuration; write the URL as env:NAME or file:PATH",
            );
        }
        Some(Database {
            auto_migrate: self.auto_migrate.unwrap_or(url.dialect() == Dialect::Sqlite),
            url,
            max_connections: self.max_connections,
            acquire_timeout: self.acquire_timeout,
            statement_cache: self.statement_cache,
        })
    }
}

/// A writer, the ledger, the pruner and a reader for the operator.
const MIN_CONNECTIONS: u32 = 4;

/// A URL of a database this program can use.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    url: Secret,
    dialect: Dialect,
}

impl DatabaseUrl {
    /// Checks the scheme.
    ///
    /// # Errors
    /// In words, without the URL, when the scheme is another.
    pub fn parse(url: Secret) -> Result<Self, String> {
        let dialect = match url.expose().split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Dialect::Sqlite,
            Some("postgres" | "postgresql") => Dialect::Postgres,
            Some(scheme) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return Err(format!(
                    "{scheme:?} is not a database this program knows; write sqlite://PATH or postgres://USER@HOST/DATABASE"
                ));
            }
            _ => {
                return Err(
                    "this is not a database URL; write sqlite://PATH or postgres://USER@HOST/DATABASE".into(),
                );
            }
        };
        Ok(Self { url, dialect })
    }

    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The URL with its password. Every use is a place to look at.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.url.expose()
    }

    fn carries_password(&self) -> bool {
        let url = self.url.expose();
        let authority = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        authority.is_some_and(|(user, _)| user.contains(':')) || url.contains("password=")
    }
}

impl fmt::Display for DatabaseUrl {
    /// Scheme, host and database; neither user nor password nor options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.expose();
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let rest = rest.trim_start_matches('/');
        let (before_options, options) = rest.split_once('?').unwrap_or((rest, ""));
        if options.contains('@') {
            // A question mark inside the password: nobody can tell where it ends.
            return write!(f, "{scheme}://…");
        }
        let place = before_options.rsplit_once('@').map_or(before_options, |(_, place)| place);
        let root = if self.dialect == Dialect::Sqlite && url.contains(":///") { "/" } else { "" };
        write!(f, "{scheme}://{root}{place}")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
