//! The throwaway PostgreSQL that `scripts/postgres run --durable` started for this run: durable
//! commits, default settings but for `max_connections`. The script ends it, whatever happens here.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};

use super::Store;
use crate::procfs;

/// How the script tells where the cluster is: a URL of a superuser.
pub(crate) const URL_VARIABLE: &str = "HOOKLATCH_TEST_POSTGRES_URL";

/// What a commit must wait for, and what would make the figures worthless.
const DURABLE: [(&str, &str); 3] =
    [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")];

#[derive(Debug)]
pub(crate) struct Cluster {
    admin: PgPool,
    user: String,
    pub(crate) password: String,
    /// Host and port.
    location: String,
    postmaster: u32,
    pub(crate) version: String,
}

impl Cluster {
    /// Connects, and checks that commits are durable.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let admin = PgPoolOptions::new().max_connections(1).connect(url).await?;
        for (setting, wanted) in DURABLE {
            let found: String =
                sqlx::query_scalar("SELECT current_setting($1)").bind(setting).fetch_one(&admin).await?;
            ensure!(found == wanted, "PostgreSQL runs with {setting} = {found}: its commits are not durable");
        }
        let version = sqlx::query_scalar("SHOW server_version").fetch_one(&admin).await?;
        let postmaster: String =
            sqlx::query_scalar("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")
                .fetch_one(&admin)
                .await?;
        let (user, password, location) = parts(url).context("the cluster's URL is not understood")?;
        Ok(Self {
            admin,
            user: user.to_owned(),
            password: password.to_owned(),
            location: location.to_owned(),
            postmaster: postmaster.trim().parse()?,
            version,
        })
    }

    /// Makes a database and opens it.
    pub(crate) async fn create(&self, database: &str) -> Result<Store> {
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {database}"))).execute(&self.admin).await?;
        let pool = PgPoolOptions::new().max_connections(1).connect(&self.url(database)).await?;
        Ok(Store::Postgres(pool))
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://{}:{}@{}/{database}", self.user, self.password, self.location)
    }

    /// For programs that take the password from their environment.
    pub(crate) fn url_without_password(&self, database: &str) -> String {
        format!("postgres://{}@{}/{database}", self.user, self.location)
    }

    /// Writes out what is dirty, so that nobody pays for the one before.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        sqlx::raw_sql("CHECKPOINT").execute(&self.admin).await?;
        Ok(())
    }

    /// Bytes of write-ahead log since the beginning.
    pub(crate) async fn log_bytes(&self) -> Result<u64> {
        let bytes: i64 = sqlx::query_scalar("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
            .fetch_one(&self.admin)
            .await?;
        Ok(u64::try_from(bytes)?)
    }

    /// Processor time of all of PostgreSQL's processes.
    pub(crate) fn processor_time(&self) -> Duration {
        procfs::processor_time(self.postmaster)
    }
}

/// User, password, and host with port.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let (_, rest) = url.split_once("://")?;
    let (credentials, rest) = rest.rsplit_once('@')?;
    let (user, password) = credentials.split_once(':')?;
    let (location, _) = rest.split_once('/')?;
    Some((user, password, location))
}
