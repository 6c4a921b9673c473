//! PostgreSQL's SQLSTATEs in the words the inbox decides by.

use crate::store::{StoreError, StoreErrorKind};

/// Classifies an error of one of our own statements: what does not fit them is the schema.
pub(super) fn ours(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError + Copy {
    move |error| {
        let kind = match kind(&error) {
            StoreErrorKind::Statement => StoreErrorKind::Schema,
            kind => kind,
        };
        StoreError::new(kind, doing, Cause(error))
    }
}

/// Classifies an error of a handler's statement, or of the function that runs it.
pub(super) fn handlers(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError + Copy {
    move |error| {
        let kind = match kind(&error) {
            StoreErrorKind::Statement if is_about_our_schema(&error) => StoreErrorKind::Schema,
            kind => kind,
        };
        StoreError::new(kind, doing, Cause(error))
    }
}

/// Whether a failed event with this SQLSTATE will fail for ever: data exceptions and integrity
/// constraint violations.
pub(super) fn is_permanent(code: &str) -> bool {
    code.starts_with("22") || code.starts_with("23")
}

/// Whether a handler's failure may be the fault of one event, as `hooklatch.run_handlers` sees it. A
/// lock that was waited for too long is none there: it waits as long as the statement may run.
pub(super) fn may_be_one_event(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| !is_nobodys_fault(&code))
}

/// Whether the same statement may succeed later, or in another session: nothing was wrong with it.
pub(super) fn is_passing(code: &str) -> bool {
    // object_not_in_prerequisite_state: a lock, for one
    is_nobodys_fault(code) || code.starts_with("55")
}

fn is_nobodys_fault(code: &str) -> bool {
    const CLASSES: [&str; 6] = ["08", "40", "53", "57", "58", "XX"];
    CLASSES.iter().any(|class| code.starts_with(class))
}

/// Whether the connection was of no use before the statement could run.
pub(super) fn is_lost_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        // What a server says to idle connections when it goes, and what a proxy says.
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("08") || matches!(&*code, "57P01" | "57P02" | "57P05")),
        _ => false,
    }
}

/// Whether the transaction had failed before this statement.
pub(super) fn is_aborted(error: &sqlx::Error) -> bool {
    // in_failed_sql_transaction
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "25P02")
}

/// Whether a row stands there already.
pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

fn kind(error: &sqlx::Error) -> StoreErrorKind {
    match error {
        sqlx::Error::Database(error) => {
            error.code().map_or(StoreErrorKind::Unavailable, |c| kind_of_code(&c))
        }
        // What a handler asked for, or another version wrote, is not what is read.
        sqlx::Error::RowNotFound
        | sqlx::Error::TypeNotFound { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Encode(_)
        | sqlx::Error::Decode(_) => StoreErrorKind::Statement,
        _ => StoreErrorKind::Unavailable,
    }
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn kind_of_code(code: &str) -> StoreErrorKind {
    match code {
        // serialization_failure, statement_completion_unknown, deadlock_detected
        "40001" | "40003" | "40P01" => StoreErrorKind::Contention,
        "55P03" => StoreErrorKind::LockTimeout,
        // query_canceled: by statement_timeout, or by a person
        "57014" => StoreErrorKind::StatementTimeout,
        // insufficient_privilege: the database refuses us
        "42501" => StoreErrorKind::Unavailable,
        _ => match code.get(..2) {
            Some("22" | "23") => StoreErrorKind::Data,
            Some("42" | "0A" | "3F") => StoreErrorKind::Statement,
            _ => StoreErrorKind::Unavailable,
        },
    }
}

fn is_about_our_schema(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    let message = error.message();
    message.contains("hooklatch.") || message.contains("\"hooklatch\"")
}

/// A database error as its code and message alone: details can hold a row's values.
struct Cause(sqlx::Error);

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            sqlx::Error::Database(error) => {
                write!(f, "{} (SQLSTATE {})", error.message(), error.code().unwrap_or_default())
            }
            error => error.fmt(f),
        }
    }
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_sqlstate_has_its_kind() {
        for (code, kind) in [
            ("22P02", StoreErrorKind::Data),
            ("23505", StoreErrorKind::Data),
            ("40001", StoreErrorKind::Contention),
            ("40P01", StoreErrorKind::Contention),
            ("55P03", StoreErrorKind::LockTimeout),
            ("57014", StoreErrorKind::StatementTimeout),
            ("42P01", StoreErrorKind::Statement),
            ("42501", StoreErrorKind::Unavailable),
            ("0A000", StoreErrorKind::Statement),
            ("3F000", StoreErrorKind::Statement),
            ("57P01", StoreErrorKind::Unavailable),
            ("53300", StoreErrorKind::Unavailable),
            ("XX000", StoreErrorKind::Unavailable),
        ] {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }

    #[test]
    fn only_data_and_constraints_fail_for_ever() {
        for (code, permanent) in [("22003", true), ("23503", true), ("P0001", false), ("42703", false)] {
            assert_eq!(is_permanent(code), permanent, "{code}");
        }
    }
}
