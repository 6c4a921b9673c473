//! What applies the business change: SQL, a message to another system, or Rust code.
//!
//! A handler runs inside the inbox's transaction. It must not commit, roll back, or do I/O that
//! the transaction cannot undo.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{PgConnection, SqliteConnection};

use crate::event::{Event, EventKey};
use crate::outbox::Forward;

pub use crate::store::sql_handler::SqlHandler;

/// Which event types a handler is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeFilter {
    /// Empty: every type. An entry that ends in `*` matches by prefix.
    patterns: Vec<String>,
}

impl TypeFilter {
    /// A filter for these types; none means every type.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { patterns: patterns.into_iter().map(Into::into).collect() }
    }

    /// As configured; none means every type.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    #[must_use]
    pub fn matches(&self, event_type: &str) -> bool {
        self.patterns.is_empty()
            || self.patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => event_type.starts_with(prefix),
                None => pattern == event_type,
            })
    }
}

/// A handler with the event types it is for.
#[derive(Clone, Debug)]
pub struct HandlerBinding {
    pub on: TypeFilter,
    pub step: Step,
}

/// One step of applying an event.
#[derive(Clone)]
pub enum Step {
    /// A set-based statement over `event`.
    Sql(Arc<SqlHandler>),
    /// A message in the outbox, once the other steps have succeeded.
    Forward(Arc<Forward>),
    /// Rust code of the embedding program.
    Code(Arc<dyn Handler>),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(_) => f.write_str("Sql"),
            Self::Forward(forward) => forward.fmt(f),
            Self::Code(_) => f.write_str("Code"),
        }
    }
}

/// An answer that a handler sets for one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerReply {
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
}

/// The open transaction, as a connection of the store's own kind.
#[derive(Debug)]
pub enum HandlerConnection<'c> {
    Postgres(&'c mut PgConnection),
    Sqlite(&'c mut SqliteConnection),
}

/// Why a handler could not apply events.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// It never will: the event is rejected and kept as a dead letter.
    #[error("refused: {0}")]
    Permanent(Cow<'static, str>),
    /// It may later: nothing is stored and the sender comes again.
    #[error("failed for now: {0}")]
    Transient(Cow<'static, str>),
    /// A database error, classified by its SQLSTATE or SQLite code.
    #[error("database error")]
    Database(#[from] sqlx::Error),
}

/// Rust code that applies the business change.
///
/// Gets the open transaction and fresh events, in order of arrival; on an error, the changes it
/// made are undone and it is called again with fewer events until the one that fails is alone.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Applies `events`; returns the answers of those that should not get the standard one.
    async fn apply(
        &self,
        connection: HandlerConnection<'_>,
        events: &[&Event],
    ) -> Result<Vec<(EventKey, HandlerReply)>, HandlerError>;
}
