//! Connections that the short way of a batch keeps to itself, and what it has put into their sessions.
//!
//! To take turns with all of the pool would mean that a batch meets another server process each time, whose
//! caches have forgotten us.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, PgPool, Postgres};

use super::{classify, handlers};
use crate::store::SqlHandler;

/// Of the usual number of writers, one for its batches and one for what it sets aside.
const MOST_KEPT: usize = 2;

/// The connections, the one used last on top.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<KeptConnection>>);

/// A connection with what its session holds.
#[derive(Debug)]
pub(super) struct KeptConnection {
    connection: PoolConnection<Postgres>,
    /// Calls of the functions that were made in this session.
    functions: HashSet<String>,
    /// The session may make none.
    refuses_functions: bool,
}

impl Kept {
    /// A connection of those that were kept, else of the pool.
    pub(super) async fn take(&self, pool: &PgPool) -> Result<KeptConnection, sqlx::Error> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(connection) => Ok(connection),
            None => pool.acquire().await.map(KeptConnection::new),
        }
    }

    /// Keeps a connection that is still good; never more than half of a small pool, which others wait for.
    pub(super) fn keep(&self, pool: &PgPool, connection: KeptConnection) {
        let most = MOST_KEPT.min(pool.options().get_max_connections() as usize / 2);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < most && !pool.is_closed() {
            kept.push(connection);
        }
    }

    pub(super) fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl KeptConnection {
    fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, functions: HashSet::new(), refuses_functions: false }
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Whether the handler's statement is a function of this session, which is made if need be. A function
    /// keeps the plan of its statement; a text that a function executes is parsed and planned each time, which
    /// costs as much as several events.
    pub(super) async fn has_function_of(&mut self, handler: &SqlHandler) -> Result<bool, sqlx::Error> {
        let call = handlers::called(handler);
        if self.refuses_functions {
            return Ok(false);
        }
        if self.functions.contains(call) {
            return Ok(true);
        }
        // Safe: the statement is the operator's own, from the configuration.
        let definition = sqlx::raw_sql(AssertSqlSafe(handlers::function_of(handler)));
        match self.connection.execute(definition).await {
            Ok(_) => {
                self.functions.insert(call.to_owned());
                Ok(true)
            }
            // The role may not make temporary objects in this database, for one.
            Err(error) if error.as_database_error().is_some() && !classify::is_lost_connection(&error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "a handler's statement goes as text"
                );
                self.refuses_functions = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
