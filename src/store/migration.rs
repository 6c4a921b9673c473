//! Migrations: which there are, which a database has run, and what follows from the difference.
//!
//! The files are embedded in the binary and run in the order of their names. Each is a list of
//! single statements, parted by lines that name them (`-- name: …`), because a statement at a time
//! is what every server and proxy takes. Knows nothing of a dialect: the stores read the table
//! `schema_migrations` and run the statements.

use chrono::{DateTime, Utc};

use super::{MigrationStatus, StoreError, StoreErrorKind};

/// The line that begins a statement.
const NAME_LINE: &str = "-- name:";

/// A file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// The file's name without its extension, as in `0001_inbox`.
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

impl Migration {
    /// The file's statements, in order.
    pub(super) fn statements(&self) -> impl Iterator<Item = &'static str> {
        let mut starts: Vec<usize> = self
            .sql
            .match_indices(NAME_LINE)
            .map(|(at, _)| at)
            .filter(|&at| at == 0 || self.sql[..at].ends_with('\n'))
            .collect();
        starts.push(self.sql.len());
        let sql = self.sql;
        (1..starts.len()).map(move |next| sql[starts[next - 1]..starts[next]].trim())
    }
}

/// A row of `schema_migrations`.
#[derive(Clone, Debug)]
pub(super) struct AppliedMigration {
    pub(super) name: String,
    pub(super) applied_at: DateTime<Utc>,
}

/// Every migration that the program or the database knows, in the order of their names.
pub(super) fn compare(known: &[Migration], applied: &[AppliedMigration]) -> Vec<MigrationStatus> {
    let mut all: Vec<MigrationStatus> = known
        .iter()
        .map(|migration| MigrationStatus {
            name: migration.name.to_owned(),
            applied_at: applied.iter().find(|row| row.name == migration.name).map(|row| row.applied_at),
            known: true,
        })
        .chain(applied.iter().filter(|row| known.iter().all(|migration| migration.name != row.name)).map(
            |row| MigrationStatus { name: row.name.clone(), applied_at: Some(row.applied_at), known: false },
        ))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The migrations that are still to run.
///
/// # Errors
/// When the database has run one that this program does not know: the schema is newer.
pub(super) fn pending<'m>(
    known: &'m [Migration],
    applied: &[AppliedMigration],
) -> Result<Vec<&'m Migration>, StoreError> {
    if let Some(newer) = compare(known, applied).iter().find(|status| !status.known) {
        return Err(StoreError::new(
            StoreErrorKind::Schema,
            "migrate the database",
            format!(
                "the database has run migration {}, which this version does not know; \
                 run the hooklatch that migrated it, or a later one",
                newer.name
            ),
        ));
    }
    Ok(known.iter().filter(|migration| applied.iter().all(|row| row.name != migration.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 2] = [
        Migration {
            name: "0001_first",
            sql: "-- About the file.\n\n-- name: create a\nCREATE TABLE a (x INTEGER); -- name: not a line\n\n\
                  -- name: create b\n-- why\nCREATE TABLE b (x INTEGER);\n",
        },
        Migration { name: "0002_second", sql: "-- name: only\nSELECT 1" },
    ];

    fn applied(name: &str) -> AppliedMigration {
        AppliedMigration { name: name.to_owned(), applied_at: DateTime::UNIX_EPOCH }
    }

    #[test]
    fn a_file_is_parted_at_its_name_lines_only() {
        let statements: Vec<_> = KNOWN[0].statements().collect();
        assert_eq!(
            statements,
            [
                "-- name: create a\nCREATE TABLE a (x INTEGER); -- name: not a line",
                "-- name: create b\n-- why\nCREATE TABLE b (x INTEGER);",
            ]
        );
        assert_eq!(KNOWN[1].statements().collect::<Vec<_>>(), ["-- name: only\nSELECT 1"]);
    }

    #[test]
    fn what_has_not_run_is_pending_in_order() {
        let names = |applied: &[AppliedMigration]| -> Vec<&str> {
            pending(&KNOWN, applied).expect("nothing newer").iter().map(|m| m.name).collect()
        };
        assert_eq!(names(&[]), ["0001_first", "0002_second"]);
        assert_eq!(names(&[applied("0001_first")]), ["0002_second"]);
        assert!(names(&[applied("0001_first"), applied("0002_second")]).is_empty());
    }

    #[test]
    fn a_newer_schema_is_refused_and_named() {
        let error = pending(&KNOWN, &[applied("0009_future")]).expect_err("newer");
        assert_eq!(error.kind, StoreErrorKind::Schema);
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains("0009_future"), "{cause}");
    }

    #[test]
    fn the_comparison_lists_both_sides() {
        let all = compare(&KNOWN, &[applied("0001_first"), applied("0009_future")]);
        let told: Vec<_> = all.iter().map(|s| (s.name.as_str(), s.applied_at.is_some(), s.known)).collect();
        assert_eq!(
            told,
            [("0001_first", true, true), ("0002_second", false, true), ("0009_future", true, false),]
        );
    }
}
