//! Statements over many rows at once, each row a group of parameters of one VALUES list.
//!
//! A statement costs a trip to the connection's thread, and a JSON array would be written, parsed and
//! searched for each value. Parameters are bound as they are. So that few statements need be
//! prepared, lists come in powers of two: the rows that are left over stay unbound, which SQLite
//! reads as NULL, and the statement leaves those out.

use std::sync::OnceLock;

/// Lists come with 1, 2, 4, … rows: so many lengths there are.
pub(super) const LENGTHS: usize = 10;

/// Most rows of one list. Far below SQLite's limit of 32,766 parameters at the widths used here.
pub(super) const MAX_ROWS: usize = 1 << (LENGTHS - 1);

/// The shortest list that holds so many rows, as a place among the lengths.
pub(super) fn length(rows: usize) -> usize {
    let rows = rows.clamp(1, MAX_ROWS);
    rows.next_power_of_two().trailing_zeros() as usize
}

/// A VALUES list of one row, repeated to the length at this place.
pub(super) fn repeat(row: &str, length: usize) -> String {
    let mut list = row.to_owned();
    for _ in 1..1_usize << length {
        list.push_str(", ");
        list.push_str(row);
    }
    list
}

/// A statement with `VALUES (?, …)` in it, whose one row is repeated as needed.
pub(super) struct ManyRows {
    statement: &'static str,
    lengths: [OnceLock<Box<str>>; LENGTHS],
}

impl ManyRows {
    pub const fn new(statement: &'static str) -> Self {
        Self { statement, lengths: [const { OnceLock::new() }; LENGTHS] }
    }

    /// The statement for at least so many rows, at most [`MAX_ROWS`].
    pub fn of(&'static self, rows: usize) -> &'static str {
        let length = length(rows);
        self.lengths[length].get_or_init(|| {
            let (before, rest) = self.statement.split_once("VALUES (").expect("a VALUES list");
            let (row, after) = rest.split_once(')').expect("the end of its row");
            format!("{before}VALUES {}{after}", repeat(&format!("({row})"), length)).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_the_shortest_that_holds_the_rows() {
        static STATEMENT: ManyRows = ManyRows::new("SELECT ? FROM (VALUES (?, ?)) WHERE true");
        assert_eq!(STATEMENT.of(1), "SELECT ? FROM (VALUES (?, ?)) WHERE true");
        assert_eq!(STATEMENT.of(3), "SELECT ? FROM (VALUES (?, ?), (?, ?), (?, ?), (?, ?)) WHERE true");
        assert_eq!(STATEMENT.of(4), STATEMENT.of(3));
        assert_eq!(STATEMENT.of(MAX_ROWS).matches("(?, ?)").count(), MAX_ROWS);
    }
}
