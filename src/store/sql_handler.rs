//! A handler's statement over `event`: what can be told of it without a database.
//!
//! Finds where the CTE `event` goes, whether the statement returns rows, and which of the costly
//! columns of `event` it can mention. Refuses what cannot be one statement over `event`. It judges
//! no grammar beyond that: `Store::check_handler` asks the database.

mod lexer;

use std::sync::OnceLock;

use lexer::{Kind, Token, tokens};

/// The relation that holds a handler's events.
const EVENT: &str = "event";

/// A store may need so many shapes of the relation `event`: one for each of the lengths it comes in, say.
pub(super) const SHAPES: usize = 10;

/// The columns of `event`.
const COLUMNS: [&str; 9] =
    ["ordinal", "id", "type", "occurred_at", "data", "payload", "headers", "source", "received_at"];

/// What a handler's statement may begin with, after its CTEs.
const VERBS: [&str; 8] = ["select", "insert", "update", "delete", "merge", "replace", "values", "table"];

/// Words that may follow a table in a FROM clause and are not its alias.
const AFTER_A_TABLE: [&str; 25] = [
    "where",
    "join",
    "left",
    "right",
    "inner",
    "cross",
    "full",
    "natural",
    "on",
    "group",
    "order",
    "limit",
    "returning",
    "union",
    "except",
    "intersect",
    "having",
    "offset",
    "for",
    "fetch",
    "using",
    "set",
    "window",
    "when",
    "tablesample",
];

/// Why a text cannot be a handler's statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlHandlerError {
    #[error("the statement is empty; remove the handler, or write what it should do")]
    Empty,
    #[error("the text holds several statements; a handler is one, so write a handler for each")]
    SeveralStatements,
    #[error("the statement defines a CTE named `event`, which is where the events are; give it another name")]
    EventCte,
    #[error("the statement has the bind parameter `{0}`; a handler's only input is the relation `event`")]
    Parameter(String),
    #[error(
        "the statement begins with `{0}`; a handler is one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES, \
         with or without WITH before it"
    )]
    NotOverEvents(String),
    #[error("a {0} in the statement has no end or no beginning")]
    Unterminated(&'static str),
}

/// A handler's statement over `event`.
#[derive(Debug)]
pub struct SqlHandler {
    sql: Box<str>,
    /// Where the first CTE of the statement's own begins, and whether they are RECURSIVE.
    ctes: Option<(usize, bool)>,
    /// Where the statement begins that follows the CTEs.
    main: usize,
    returns_rows: bool,
    /// Which of [`COLUMNS`] it may mention, one bit each.
    mentioned: u16,
    composed: [OnceLock<Box<str>>; SHAPES],
    composed_within: OnceLock<Box<str>>,
    /// Whether the statement after the CTEs can be a CTE itself.
    fits_within: bool,
}

impl SqlHandler {
    /// Reads a statement.
    ///
    /// # Errors
    /// When the text cannot be one statement over `event`.
    pub fn new(sql: &str) -> Result<Self, SqlHandlerError> {
        let mut tokens = tokens(sql)?;
        if let Some(end) = tokens.iter().position(|token| token.is_symbol(';')) {
            if tokens[end..].iter().any(|token| !token.is_symbol(';')) {
                return Err(SqlHandlerError::SeveralStatements);
            }
            tokens.truncate(end);
        }
        let end = tokens.last().ok_or(SqlHandlerError::Empty)?.end;
        if tokens.iter().enumerate().any(|(at, token)| token.names(EVENT) && defines_cte(&tokens[at + 1..])) {
            return Err(SqlHandlerError::EventCte);
        }
        let (ctes, main) = split_with(&tokens);
        let main = &tokens[main..];
        let first = main.first().ok_or(SqlHandlerError::Empty)?;
        if !first.is_symbol('(') && !first.is_any_word(&VERBS) {
            return Err(SqlHandlerError::NotOverEvents(sql[first.start..first.end].to_owned()));
        }
        let returns_rows = first.is_symbol('(')
            || first.is_any_word(&["select", "values", "table"])
            || main.iter().any(|token| token.depth == 0 && token.is_word("returning"));
        Ok(Self {
            sql: sql[..end].into(),
            ctes,
            main: first.start,
            returns_rows,
            mentioned: mentioned(&tokens),
            composed: [const { OnceLock::new() }; SHAPES],
            composed_within: OnceLock::new(),
            fits_within: first.is_any_word(&["insert", "update", "delete"]),
        })
    }

    /// The statement as written, without a closing semicolon.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.sql
    }

    /// Whether the statement returns rows: the answers of events.
    #[must_use]
    pub fn returns_rows(&self) -> bool {
        self.returns_rows
    }

    /// Whether the statement may mention this column of `event`. One that it cannot mention need not
    /// be provided. Errs on the side of mentioning.
    #[must_use]
    pub fn mentions(&self, column: &str) -> bool {
        COLUMNS.iter().position(|name| *name == column).is_none_or(|bit| self.mentioned & (1 << bit) != 0)
    }

    /// The statement with `event_cte` (`event AS (…)`) before its own CTEs. Made once a shape: a process
    /// speaks one dialect, so a shape's CTE is always the same.
    pub(super) fn compose(&self, shape: usize, event_cte: impl FnOnce() -> String) -> &str {
        self.composed[shape].get_or_init(|| {
            let (ctes, main) = self.parts(&event_cte());
            format!("{ctes}\n{main}").into()
        })
    }

    /// As [`compose`](Self::compose), with the rows of a statement that returns some in the CTE
    /// `name`, and `select` over it. Made once a shape, instead of the other.
    pub(super) fn compose_select(
        &self,
        shape: usize,
        event_cte: impl FnOnce() -> String,
        name: &str,
        select: &str,
    ) -> &str {
        self.composed[shape].get_or_init(|| {
            let (ctes, main) = self.parts(&event_cte());
            // The line breaks end comments that may stand there.
            format!("{ctes}\n, {name} AS (\n{main}\n)\n{select}").into()
        })
    }

    /// A text that stands for the statement. Made once a shape.
    pub(super) fn stand_in(&self, shape: usize, make: impl FnOnce() -> String) -> &str {
        self.composed[shape].get_or_init(|| make().into())
    }

    /// As [`compose`](Self::compose), with the statement itself in a CTE `name` and `select` after it.
    /// `None` where the grammar has no place for it there (MERGE). Made once.
    pub(super) fn compose_within(
        &self,
        ctes_before: impl FnOnce() -> String,
        name: &str,
        select: &str,
    ) -> Option<&str> {
        self.fits_within.then(|| {
            &**self.composed_within.get_or_init(|| {
                let (ctes, main) = self.parts(&ctes_before());
                // The line breaks end comments that may stand there.
                format!("{ctes}\n, {name} AS (\n{main}\n)\n{select}").into()
            })
        })
    }

    /// All CTEs, and the statement that follows them.
    fn parts(&self, event_cte: &str) -> (String, &str) {
        let ctes = match self.ctes {
            None => format!("WITH {event_cte}"),
            Some((own, recursive)) => {
                let recursive = if recursive { "RECURSIVE " } else { "" };
                format!("WITH {recursive}{event_cte},\n{}", self.sql[own..self.main].trim_end())
            }
        };
        (ctes, &self.sql[self.main..])
    }
}

/// Whether what follows a name makes it the name of a CTE: `AS [[NOT] MATERIALIZED] (`, with or
/// without a list of columns before it.
fn defines_cte(after: &[Token<'_>]) -> bool {
    let after = skip_parentheses(after);
    let [first, rest @ ..] = after else { return false };
    first.is_word("as")
        && rest
            .iter()
            .find(|token| !token.is_any_word(&["not", "materialized"]))
            .is_some_and(|token| token.is_symbol('('))
}

/// The tokens after a parenthesis that opens here; all of them if none does.
fn skip_parentheses<'t, 's>(tokens: &'t [Token<'s>]) -> &'t [Token<'s>] {
    match tokens.first() {
        Some(open) if open.is_symbol('(') => {
            let close = tokens.iter().position(|token| token.is_symbol(')') && token.depth == open.depth);
            close.map_or(&[], |close| &tokens[close + 1..])
        }
        _ => tokens,
    }
}

/// Finds the statement's own CTEs (where the first begins, and whether they are RECURSIVE) and the
/// place of its verb among the tokens.
fn split_with(tokens: &[Token<'_>]) -> (Option<(usize, bool)>, usize) {
    if !tokens.first().is_some_and(|token| token.is_word("with")) {
        return (None, 0);
    }
    let recursive = tokens.get(1).is_some_and(|token| token.is_word("recursive"));
    let mut rest = &tokens[if recursive { 2 } else { 1 }..];
    let Some(own) = rest.first().map(|token| token.start) else { return (None, tokens.len()) };
    loop {
        // A name, its columns, AS [[NOT] MATERIALIZED], and the body.
        rest = skip_parentheses(rest.get(1..).unwrap_or_default());
        let body = rest.iter().position(|token| token.is_symbol('(')).unwrap_or(rest.len());
        rest = skip_parentheses(&rest[body..]);
        // SEARCH and CYCLE clauses may follow.
        let next = rest
            .iter()
            .position(|token| token.depth == 0 && (token.is_symbol(',') || begins_statement(token)))
            .unwrap_or(rest.len());
        // A comma may also stand between the columns of such a clause: then no body follows it.
        let comma = rest.get(next).is_some_and(|token| token.is_symbol(','));
        rest = &rest[next..];
        if !comma {
            break;
        }
        rest = &rest[1..];
        while !defines_cte(rest.get(1..).unwrap_or_default()) {
            match rest.iter().position(|token| token.depth == 0 && token.is_symbol(',')) {
                Some(comma) => rest = &rest[comma + 1..],
                None => break,
            }
        }
        if !defines_cte(rest.get(1..).unwrap_or_default()) {
            let verb = rest.iter().position(|token| token.depth == 0 && begins_statement(token));
            rest = &rest[verb.unwrap_or(rest.len())..];
            break;
        }
    }
    (Some((own, recursive)), tokens.len() - rest.len())
}

fn begins_statement(token: &Token<'_>) -> bool {
    token.is_symbol('(') || token.is_any_word(&VERBS)
}

/// Which of [`COLUMNS`] a statement may mention, one bit each.
fn mentioned(tokens: &[Token<'_>]) -> u16 {
    let mut mentioned = 0;
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let whole_row = match token.kind {
            Kind::Opaque => true,
            Kind::Symbol('*') => is_wildcard(before, tokens.get(at + 1)),
            _ if token.is_word("natural") => true,
            _ if token.names(EVENT) => uses_row(tokens, at),
            _ => false,
        };
        if whole_row {
            return u16::MAX;
        }
        for (bit, column) in COLUMNS.iter().enumerate() {
            mentioned |= u16::from(token.names(column)) << bit;
        }
    }
    mentioned
}

/// Whether a `*` stands for all columns; `count(*)` and a product do not.
fn is_wildcard(before: Option<&Token<'_>>, after: Option<&Token<'_>>) -> bool {
    let Some(before) = before else { return true };
    match before.kind {
        Kind::Symbol('(') => !after.is_some_and(|token| token.is_symbol(')')),
        Kind::Word(_) => before.is_any_word(&["select", "distinct", "all", "returning"]),
        Kind::Literal | Kind::Quoted(_) => false,
        Kind::Opaque | Kind::Symbol(_) => true,
    }
}

/// Whether the `event` at this place is used as a row, there or by its alias, and not only as the
/// table that columns are taken from.
fn uses_row(tokens: &[Token<'_>], at: usize) -> bool {
    let followed_by_dot = |at: usize| tokens.get(at + 1).is_some_and(|token| token.is_symbol('.'));
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    if followed_by_dot(at) || before.is_some_and(|token| token.is_symbol('.')) {
        return false;
    }
    if !before.is_some_and(|token| token.is_any_word(&["from", "join", "using"])) {
        return true;
    }
    let explicit = tokens.get(at + 1).is_some_and(|token| token.is_word("as"));
    let place = at + 1 + usize::from(explicit);
    let alias = match tokens.get(place).map(|token| &token.kind) {
        Some(Kind::Word(_)) if tokens[place].is_any_word(&AFTER_A_TABLE) => return false,
        Some(Kind::Word(word)) => word.to_ascii_lowercase(),
        Some(Kind::Quoted(name)) => name.clone(),
        // A list of names for its columns.
        Some(Kind::Symbol('(')) => return true,
        _ => return false,
    };
    tokens.get(place + 1).is_some_and(|token| token.is_symbol('('))
        || tokens
            .iter()
            .enumerate()
            .any(|(other, token)| other != place && token.names(&alias) && !followed_by_dot(other))
}

#[cfg(test)]
mod tests;
