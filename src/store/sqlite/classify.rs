//! SQLite's result codes in the words the inbox decides by.
//!
//! SQLite reports a broken statement and broken data by one code, `SQLITE_ERROR`; only the message
//! tells them apart. What is not known to be the data's fault is taken for the statement's: the
//! sender then comes again, and nothing is given up that a mended statement could save.

use sqlx::error::DatabaseError;

use crate::store::{StoreError, StoreErrorKind};

/// The low byte of an extended result code.
const PRIMARY: i32 = 0xff;

/// Messages of `SQLITE_ERROR` that the data caused.
const DATA_MESSAGES: [&str; 9] = [
    "malformed JSON",
    "integer overflow",
    "JSON path",
    "JSON cannot hold",
    "json_",
    "jsonb_",
    "pattern too complex",
    "ESCAPE expression",
    "must be TEXT",
];

/// Classifies an error of one of our own statements: what does not fit them is the schema.
pub(super) fn ours(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| {
        let kind = match kind(&error) {
            StoreErrorKind::Statement => StoreErrorKind::Schema,
            kind => kind,
        };
        StoreError::new(kind, doing, Cause(error))
    }
}

/// Classifies an error of a handler's statement.
pub(super) fn handlers(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| StoreError::new(kind(&error), doing, Cause(error))
}

/// True: the connection is of no use any more.
pub(super) fn is_broken(error: &sqlx::Error) -> bool {
    !matches!(
        error,
        sqlx::Error::Database(_)
            | sqlx::Error::RowNotFound
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::TypeNotFound { .. }
    )
}

fn kind(error: &sqlx::Error) -> StoreErrorKind {
    match error {
        sqlx::Error::Database(error) => kind_of_code(&**error),
        error if is_broken(error) => StoreErrorKind::Unavailable,
        // What a handler returned, or another version wrote, is not what is read.
        _ => StoreErrorKind::Statement,
    }
}

/// <https://www.sqlite.org/rescode.html>
fn kind_of_code(error: &dyn DatabaseError) -> StoreErrorKind {
    let code = error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or_default();
    match code & PRIMARY {
        // SQLITE_ERROR
        1 => {
            let message = error.message();
            // "no such function: json_foo" is the statement's fault all the same.
            let is_the_datas =
                !message.starts_with("no such") && DATA_MESSAGES.iter().any(|known| message.contains(known));
            // The statement said OR ROLLBACK: the whole transaction is gone, and would be again.
            let is_rolled_back = message.starts_with("no such savepoint");
            if is_the_datas || is_rolled_back { StoreErrorKind::Data } else { StoreErrorKind::Statement }
        }
        // TOOBIG, CONSTRAINT, MISMATCH
        18..=20 => StoreErrorKind::Data,
        // BUSY, LOCKED
        5 | 6 => StoreErrorKind::LockTimeout,
        // INTERRUPT: our own watchdog
        9 => StoreErrorKind::StatementTimeout,
        // SCHEMA: somebody migrated between preparing and running
        17 => StoreErrorKind::Contention,
        // MISUSE, AUTH, RANGE
        21 | 23 | 25 => StoreErrorKind::Statement,
        // NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB, and what is to come
        _ => StoreErrorKind::Unavailable,
    }
}

/// A database error as its message alone: the code is for us, and `Display` of sqlx repeats itself.
#[derive(Debug)]
struct Cause(sqlx::Error);

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            sqlx::Error::Database(error) => f.write_str(error.message()),
            error => error.fmt(f),
        }
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            sqlx::Error::Database(_) => None,
            error => error.source(),
        }
    }
}
