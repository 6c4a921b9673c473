//! What the black-box tests stand on: the real program as a process, a database of its own for
//! each test, an HTTP client that can misbehave, and signatures made without the product's code.
//!
//! Nothing here calls into the library: what these tests claim, a person with `curl` could see.

pub(crate) mod app;
pub(crate) mod broker;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod http;
pub(crate) mod pgbouncer;
#[cfg(feature = "amqp")]
pub(crate) mod rabbit;
pub(crate) mod signing;
pub(crate) mod tls;

use std::time::Duration;

use tokio::time::Instant;

pub(crate) use app::Setup;
pub(crate) use database::{Backend, TestDatabase};
pub(crate) use http::{Answer, Request};

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(POLL).await;
    }
}

/// Makes two tests of one claim: one on SQLite, one on PostgreSQL.
macro_rules! on_both_stores {
    ($($(#[$meta:meta])* async fn $claim:ident($backend:ident: $store:ident) $body:block)+) => {
        $(
            $(#[$meta])*
            mod $claim {
                use super::*;

                async fn holds($backend: $store) $body

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_sqlite() {
                    holds($store::Sqlite).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_postgres() {
                    holds($store::Postgres).await;
                }
            }
        )+
    };
}

pub(crate) use on_both_stores;
