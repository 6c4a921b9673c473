//! A database of its own for each test, and what the test reads there: the effects.
//!
//! The business tables belong to the test, not to hooklatch, and have no constraint that would
//! hide a second effect.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use tempfile::TempDir;

/// Which store a claim is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

/// The name of one of hooklatch's tables, as somebody else writes it.
pub(crate) fn table(backend: Backend, name: &str) -> String {
    match backend {
        Backend::Sqlite => name.to_owned(),
        Backend::Postgres => format!("hooklatch.{name}"),
    }
}

/// What the sources of the tests write to. One statement is legal in both dialects.
const BUSINESS_TABLES: &[&str] = &[
    "CREATE TABLE effects (source text NOT NULL, event_id text NOT NULL, amount bigint CHECK (amount >= 0))",
    "CREATE TABLE accounts (id text PRIMARY KEY)",
    "CREATE TABLE charges (event_id text NOT NULL, account text NOT NULL REFERENCES accounts (id))",
    "CREATE TABLE subscriptions (id text PRIMARY KEY, state text NOT NULL, version bigint NOT NULL)",
];

const SQLITE_BUSY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct TestDatabase {
    pub(crate) backend: Backend,
    /// As hooklatch's configuration wants it.
    pub(crate) url: String,
    /// The name to drop at the end; `None` for a file.
    dropped_at_end: Option<String>,
    directory: TempDir,
}

impl TestDatabase {
    pub(crate) async fn new(backend: Backend) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let database = match backend {
            Backend::Sqlite => Self {
                backend,
                url: format!("sqlite://{}", directory.path().join("hooklatch.db").display()),
                dropped_at_end: None,
                directory,
            },
            Backend::Postgres => {
                let name = format!("hooklatch_{}", unique());
                let server = server_url();
                let mut connection = PgConnection::connect(&server).await.expect("the test cluster answers");
                sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0")))
                    .execute(&mut connection)
                    .await
                    .expect("the superuser may create databases");
                Self { backend, url: with_database(&server, &name), dropped_at_end: Some(name), directory }
            }
        };
        database.create_business_tables().await;
        database
    }

    /// A database in a cluster that the test owns.
    pub(crate) async fn at(url: &str) -> Self {
        let database = Self {
            backend: Backend::Postgres,
            url: url.to_owned(),
            dropped_at_end: None,
            directory: TempDir::new().expect("a temporary directory"),
        };
        database.create_business_tables().await;
        database
    }

    async fn create_business_tables(&self) {
        for table in BUSINESS_TABLES {
            self.execute(table).await;
        }
    }

    /// Where the test may keep files beside the database.
    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let done = match self.backend {
            Backend::Sqlite => {
                let mut connection = self.sqlite().await;
                sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.map(|_| ())
            }
            Backend::Postgres => {
                let mut connection = self.postgres().await;
                sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.map(|_| ())
            }
        };
        done.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Runs statements in one transaction, which is committed or rolled back.
    pub(crate) async fn in_transaction(&self, statements: &[&str], commit: bool) {
        let end = if commit { "COMMIT" } else { "ROLLBACK" };
        let all = ["BEGIN"].iter().chain(statements).chain([&end]);
        match self.backend {
            Backend::Sqlite => {
                let mut connection = self.sqlite().await;
                for sql in all {
                    let done = sqlx::query(AssertSqlSafe(*sql)).execute(&mut connection).await;
                    done.unwrap_or_else(|e| panic!("{sql}: {e}"));
                }
            }
            Backend::Postgres => {
                let mut connection = self.postgres().await;
                for sql in all {
                    let done = sqlx::query(AssertSqlSafe(*sql)).execute(&mut connection).await;
                    done.unwrap_or_else(|e| panic!("{sql}: {e}"));
                }
            }
        }
    }

    /// The first column of every row, as text.
    pub(crate) async fn column(&self, sql: &str) -> Vec<String> {
        let read = match self.backend {
            Backend::Sqlite => {
                let mut connection = self.sqlite().await;
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await;
                rows.map(|rows| rows.iter().map(|row| row.get::<String, _>(0)).collect())
            }
            Backend::Postgres => {
                let mut connection = self.postgres().await;
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await;
                rows.map(|rows| rows.iter().map(|row| row.get::<String, _>(0)).collect())
            }
        };
        read.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let read = match self.backend {
            Backend::Sqlite => {
                let mut connection = self.sqlite().await;
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await
            }
            Backend::Postgres => {
                let mut connection = self.postgres().await;
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await
            }
        };
        read.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// How many rows a table of hooklatch has.
    pub(crate) async fn rows(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {}", self::table(self.backend, table))).await
    }

    /// As a program would leave it that is newer than this one.
    pub(crate) async fn make_newer(&self) {
        let table = table(self.backend, "schema_migrations");
        let now = match self.backend {
            Backend::Sqlite => "(SELECT max(applied_at) FROM schema_migrations)",
            Backend::Postgres => "now()",
        };
        let future = format!("INSERT INTO {table} (name, applied_at) VALUES ('9999_from_the_future', {now})");
        self.execute(&future).await;
    }

    /// How often this event took effect, whatever its source.
    pub(crate) async fn effects_of(&self, event_id: &str) -> i64 {
        let id = event_id.replace('\'', "''");
        self.number(&format!("SELECT count(*) FROM effects WHERE event_id = '{id}'")).await
    }

    pub(crate) async fn effects(&self) -> i64 {
        self.number("SELECT count(*) FROM effects").await
    }

    /// Events that took effect more than once.
    pub(crate) async fn doubled_effects(&self) -> Vec<String> {
        self.column(
            "SELECT source || '/' || event_id FROM effects GROUP BY source, event_id HAVING count(*) > 1",
        )
        .await
    }

    async fn sqlite(&self) -> SqliteConnection {
        let file = self.url.trim_start_matches("sqlite://");
        let options =
            SqliteConnectOptions::new().filename(file).create_if_missing(true).busy_timeout(SQLITE_BUSY);
        SqliteConnection::connect_with(&options).await.expect("the test's SQLite file opens")
    }

    async fn postgres(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("the test cluster answers")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Some(name) = self.dropped_at_end.take() else { return };
        blocking(async move {
            let Ok(mut connection) = PgConnection::connect(&server_url()).await else { return };
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            if let Err(e) = sqlx::query(AssertSqlSafe(drop)).execute(&mut connection).await {
                eprintln!("left the database {name} behind: {e}");
            }
        });
    }
}

/// The superuser's URL of the cluster that the tests share.
pub(crate) fn server_url() -> String {
    std::env::var("HOOKLATCH_TEST_POSTGRES_URL")
        .expect("HOOKLATCH_TEST_POSTGRES_URL is not set: run the tests with scripts/test")
}

/// The same server, another database.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a URL names a database");
    format!("{server}/{database}")
}

/// Runs `work` to its end from code that is not async, such as a destructor.
pub(crate) fn blocking<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(work)
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A name that nothing else has.
#[expect(clippy::disallowed_methods, reason = "tests name their databases apart, also between runs")]
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
