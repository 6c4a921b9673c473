//! Connections that the short way of a batch keeps to itself, and what it has put into their sessions.
//!
//! To take turns with all of the pool would mean that a batch meets another server process each time, whose
//! caches have forgotten us.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, PgPool, Postgres};

use super::{classify, handlers};
use crate::store::SqlHandler;

/// Of the usual number of writers, one for its batches and one for what it sets aside.
const MOST_KEPT: usize = 2;

/// insufficient_privilege: the role may not make temporary objects in this database.
const NOT_ALLOWED: &str = "42501";

/// The connections, the one used last on top.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<KeptConnection>>);

/// A connection with what its session holds.
#[derive(Debug)]
pub(super) struct KeptConnection {
    connection: PoolConnection<Postgres>,
    /// One that comes from the pool may go back there, and what was made in its session is forgotten.
    was_kept: bool,
    /// By their calls: whether the session took the functions that were to be made in it.
    functions: HashMap<String, bool>,
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

    /// Keeps a connection that is still good; never more than half of a small pool, which others wait for. One
    /// whose session holds functions takes the place of one whose does not.
    pub(super) fn keep(&self, pool: &PgPool, mut connection: KeptConnection) {
        let most = MOST_KEPT.min(pool.options().get_max_connections() as usize / 2);
        connection.was_kept = true;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.is_closed() {
            return;
        }
        if kept.len() >= most {
            let bare = kept.iter().position(|other| other.functions.is_empty());
            let Some(bare) = bare.filter(|_| !connection.functions.is_empty()) else { return };
            kept.remove(bare);
        }
        kept.push(connection);
    }

    pub(super) fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl KeptConnection {
    fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, was_kept: false, functions: HashMap::new(), refuses_functions: false }
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// What was made is not there.
    pub(super) fn refuse_functions(&mut self) {
        self.refuses_functions = true;
    }

    /// Whether the handler's statement is a function of this session, which is made if need be. A
    /// function keeps the plan of its statement; a text that a function executes is parsed and planned each
    /// time, which costs as much as several events.
    pub(super) async fn has_function_of(&mut self, handler: &SqlHandler) -> Result<bool, sqlx::Error> {
        if self.refuses_functions || !self.was_kept {
            return Ok(false);
        }
        let call = handlers::called(handler);
        if let Some(is_made) = self.functions.get(call) {
            return Ok(*is_made);
        }
        // Safe: the statement is the operator's own, from the configuration.
        let definition = sqlx::raw_sql(AssertSqlSafe(handlers::function_of(handler)));
        let Err(error) = self.connection.execute(definition).await else {
            self.functions.insert(call.to_owned(), true);
            return Ok(true);
        };
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        let Some(code) = code.filter(|_| !classify::is_lost_connection(&error)) else { return Err(error) };
        if code == NOT_ALLOWED {
            self.refuses_functions = true;
        } else if !classify::is_passing(&code) {
            self.functions.insert(call.to_owned(), false);
        }
        tracing::debug!(error = &error as &dyn std::error::Error, "a handler's statement goes as text");
        Ok(false)
    }
}
