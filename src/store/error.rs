//! What can go wrong in the store, in the words the inbox decides by.

use std::fmt;

/// The kind of a store error: what the caller may do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Deadlock or serialization failure: the same work may succeed at once.
    Contention,
    /// Somebody else holds a lock for longer than we wait.
    LockTimeout,
    /// A statement ran longer than it may.
    StatementTimeout,
    /// A constraint or the data (SQLSTATE classes 22 and 23): it will never succeed.
    Data,
    /// The database is away, full, or refuses us.
    Unavailable,
    /// The statement does not fit the schema (an undefined table, for example).
    Statement,
    /// The schema is missing, too old, or newer than this program.
    Schema,
}

/// A store error: what was being done, of what kind it is, and the cause.
#[derive(Debug)]
pub struct StoreError {
    pub kind: StoreErrorKind,
    /// What was being done, as in "insert event keys".
    pub doing: &'static str,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    pub fn new(
        kind: StoreErrorKind,
        doing: &'static str,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, doing, cause: cause.into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}", self.doing)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}
