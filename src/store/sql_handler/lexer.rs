//! Parts a statement into words, quoted names, literals and symbols, as PostgreSQL and SQLite do.
//!
//! Knows just enough of SQL not to be misled by what stands in strings, quoted names and comments.
//! It judges no grammar: the database does.

use super::SqlHandlerError;

/// A piece of a statement that is neither blank nor comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind<'s>,
    /// Where it begins and ends in the statement.
    pub(super) start: usize,
    pub(super) end: usize,
    /// How many parentheses are open around it; an opening one counts itself out.
    pub(super) depth: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind<'s> {
    /// A keyword or a name without quotes.
    Word(&'s str),
    /// A name in quotes, without them.
    Quoted(String),
    /// A name with Unicode escapes: nobody can tell by looking at it what it names.
    Opaque,
    /// A string or a number.
    Literal,
    Symbol(char),
}

impl Token<'_> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.kind, Kind::Word(w) if w.eq_ignore_ascii_case(word))
    }

    pub(super) fn is_any_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        self.kind == Kind::Symbol(symbol)
    }

    /// Whether this names what `name` (lower case) names.
    pub(super) fn names(&self, name: &str) -> bool {
        match &self.kind {
            Kind::Word(word) => word.eq_ignore_ascii_case(name),
            Kind::Quoted(quoted) => quoted == name,
            Kind::Opaque | Kind::Literal | Kind::Symbol(_) => false,
        }
    }
}

/// Words after which a value begins: a `?` that follows is a parameter, not an operator on what
/// stands before it.
const BEFORE_A_VALUE: [&str; 21] = [
    "select",
    "where",
    "and",
    "or",
    "not",
    "in",
    "values",
    "by",
    "limit",
    "offset",
    "set",
    "returning",
    "on",
    "when",
    "then",
    "else",
    "case",
    "like",
    "between",
    "is",
    "from",
];

/// Parts `sql` into tokens.
///
/// # Errors
/// When a string, a quoted name, a comment or a parenthesis has no end, or a bind parameter occurs.
pub(super) fn tokens(sql: &str) -> Result<Vec<Token<'_>>, SqlHandlerError> {
    let mut lexer = Lexer { sql, at: 0, depth: 0, brackets: 0, tokens: Vec::new() };
    while lexer.step()? {}
    if lexer.depth > 0 {
        return Err(SqlHandlerError::Unterminated("parenthesis"));
    }
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    sql: &'s str,
    at: usize,
    depth: usize,
    brackets: usize,
    tokens: Vec<Token<'s>>,
}

impl<'s> Lexer<'s> {
    /// Reads one token, blank or comment. False at the end.
    fn step(&mut self) -> Result<bool, SqlHandlerError> {
        let rest = &self.sql[self.at..];
        let Some(first) = rest.chars().next() else { return Ok(false) };
        let start = self.at;
        match first {
            _ if first.is_whitespace() => self.at += first.len_utf8(),
            '-' if rest.starts_with("--") => self.at += rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => self.at += comment_length(rest)?,
            '\'' => self.string(start, quoted_length(rest, '\'', false, "string")?),
            '"' | '`' => {
                let length = quoted_length(rest, first, false, "quoted name")?;
                let doubled: String = [first, first].iter().collect();
                let name = rest[1..length - 1].replace(&doubled, &first.to_string());
                self.push(Kind::Quoted(name), start, length);
            }
            '$' => self.dollar(rest, start)?,
            '(' => {
                self.push(Kind::Symbol('('), start, 1);
                self.depth += 1;
            }
            ')' => {
                self.depth = self.depth.checked_sub(1).ok_or(SqlHandlerError::Unterminated("parenthesis"))?;
                self.push(Kind::Symbol(')'), start, 1);
            }
            _ if first.is_ascii_digit() => {
                let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c)));
                self.push(Kind::Literal, start, length.unwrap_or(rest.len()));
            }
            _ if begins_word(first) => self.word(rest, start)?,
            _ => self.symbol(rest, first, start)?,
        }
        Ok(true)
    }

    fn push(&mut self, kind: Kind<'s>, start: usize, length: usize) {
        self.at = start + length;
        self.tokens.push(Token { kind, start, end: self.at, depth: self.depth });
    }

    fn string(&mut self, start: usize, length: usize) {
        self.push(Kind::Literal, start, length);
    }

    /// A word, or what a letter before a quote makes of a string or a name.
    fn word(&mut self, rest: &'s str, start: usize) -> Result<(), SqlHandlerError> {
        let length = rest.find(|c| !continues_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        if after.starts_with('\'') && word.len() == 1 && "eEnNbBxX".contains(word) {
            let escapes = word.eq_ignore_ascii_case("e");
            self.string(start, length + quoted_length(after, '\'', escapes, "string")?);
        } else if word.eq_ignore_ascii_case("u") && after.starts_with("&'") {
            self.string(start, length + 1 + quoted_length(&after[1..], '\'', false, "string")?);
        } else if word.eq_ignore_ascii_case("u") && after.starts_with("&\"") {
            let quoted = quoted_length(&after[1..], '"', false, "quoted name")?;
            self.push(Kind::Opaque, start, length + 1 + quoted);
        } else {
            self.push(Kind::Word(word), start, length);
        }
        Ok(())
    }

    /// A dollar-quoted string, or a parameter.
    fn dollar(&mut self, rest: &str, start: usize) -> Result<(), SqlHandlerError> {
        let tag_end = rest[1..].find(|c| !continues_word(c) || c == '$').map(|length| length + 1);
        let tag = match tag_end {
            Some(end)
                if rest[end..].starts_with('$') && !rest[1..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                &rest[..=end]
            }
            _ => return Err(parameter(rest)),
        };
        let body = &rest[tag.len()..];
        let end = body.find(tag).ok_or(SqlHandlerError::Unterminated("dollar-quoted string"))?;
        self.string(start, 2 * tag.len() + end);
        Ok(())
    }

    fn symbol(&mut self, rest: &str, first: char, start: usize) -> Result<(), SqlHandlerError> {
        let named = rest[first.len_utf8()..].starts_with(begins_word);
        match first {
            // In PostgreSQL `data ? 'key'` is an operator.
            '?' if !self.follows_value() => return Err(parameter(rest)),
            '@' if named => return Err(parameter(rest)),
            ':' if rest.starts_with("::") => {
                self.push(Kind::Symbol(':'), start, 2);
                return Ok(());
            }
            ':' if named && self.brackets == 0 => return Err(parameter(rest)),
            '[' => self.brackets += 1,
            ']' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.push(Kind::Symbol(first), start, first.len_utf8());
        Ok(())
    }

    /// Whether the last token ends a value, so that an operator may follow.
    fn follows_value(&self) -> bool {
        self.tokens.last().is_some_and(|last| match last.kind {
            Kind::Word(_) => !last.is_any_word(&BEFORE_A_VALUE),
            Kind::Quoted(_) | Kind::Opaque | Kind::Literal => true,
            Kind::Symbol(symbol) => matches!(symbol, ')' | ']'),
        })
    }
}

fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn continues_word(c: char) -> bool {
    begins_word(c) || c.is_ascii_digit() || c == '$'
}

fn parameter(rest: &str) -> SqlHandlerError {
    let name = rest.chars().enumerate().take_while(|&(at, c)| at == 0 || continues_word(c)).map(|(_, c)| c);
    SqlHandlerError::Parameter(name.collect())
}

/// The length of a quoted piece, both quotes included. A doubled quote does not end it, nor one
/// after a backslash where those escape.
fn quoted_length(
    rest: &str,
    quote: char,
    escapes: bool,
    what: &'static str,
) -> Result<usize, SqlHandlerError> {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|&(_, next)| next == quote).is_none() {
            return Ok(at + 1);
        }
    }
    Err(SqlHandlerError::Unterminated(what))
}

/// The length of a comment, with those inside it.
fn comment_length(rest: &str) -> Result<usize, SqlHandlerError> {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest.as_bytes()[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.as_bytes()[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Ok(at);
            }
        } else {
            at += 1;
        }
    }
    Err(SqlHandlerError::Unterminated("comment"))
}
