//! JSON as it was sent: checked in one pass, walked without building a tree.
//!
//! A [`JsonStr`] is one complete value of RFC 8259 text. Whatever it hands out is a slice of the
//! text, so numbers and strings stay exactly as the sender wrote them. Two things that JSON allows
//! are refused, because readers disagree about them: an object with the same key twice, and
//! nesting deeper than [`MAX_DEPTH`]. Nothing here knows what the values mean.
//!
//! `check` reads what nobody has read before; what is here trusts that it has; `strings` knows what
//! stands between quotes.

mod check;
mod strings;

use std::borrow::Cow;
use std::fmt;

pub(crate) use check::DUPLICATE_KEY;

use check::Checker;
use strings::{inner, string_end, unescape};

/// Most arrays and objects within each other. With the innermost value that makes 128 levels,
/// which is as far as `serde_json` reads: code behind us can read whatever is accepted here.
pub const MAX_DEPTH: usize = 127;

/// Why a text is not accepted, and at which byte of it. Says nothing of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub struct JsonFault {
    pub problem: &'static str,
    pub offset: usize,
}

/// One complete JSON value, without blanks around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JsonStr<'a>(&'a str);

/// The six kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl<'a> JsonStr<'a> {
    /// Checks that `text` is one JSON value.
    ///
    /// # Errors
    /// When it is not, is nested too deep, or has a key twice in one object.
    pub fn check(text: &'a str) -> Result<Self, JsonFault> {
        Checker::value_of(text).map(Self)
    }

    /// The text of the value, as sent.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }

    #[must_use]
    pub fn kind(self) -> JsonKind {
        match self.0.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// The text of a string, escapes resolved. `None` for other kinds, and for strings that are no
    /// Unicode text (half of a surrogate pair).
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        match unescape(inner(self.0)) {
            Cow::Borrowed(_) => Some(Cow::Borrowed(inner(self.0))),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// The digits of a number without fraction or exponent, as sent.
    #[must_use]
    pub fn integer(self) -> Option<&'a str> {
        let digits = self.0.strip_prefix('-').unwrap_or(self.0);
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(self.0)
    }

    /// The value of an object's member; `None` for other kinds.
    #[must_use]
    pub fn member(self, key: &str) -> Option<Self> {
        let mut walker = Walker::enter(self, b'{')?;
        while let Some(name) = walker.next_value() {
            let value = walker.next_value()?;
            let name = inner(name);
            if name == key || (name.contains('\\') && *unescape(name) == *key.as_bytes()) {
                return Some(Self(value));
            }
        }
        None
    }

    /// The members of an object in order, each with its key as it was sent; none for other kinds.
    pub fn members(self) -> impl Iterator<Item = (Self, Self)> {
        let mut walker = Walker::enter(self, b'{');
        std::iter::from_fn(move || {
            let walker = walker.as_mut()?;
            Some((Self(walker.next_value()?), Self(walker.next_value()?)))
        })
    }

    /// The values of an array in order; none for other kinds.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let mut walker = Walker::enter(self, b'[');
        std::iter::from_fn(move || walker.as_mut()?.next_value().map(Self))
    }
}

impl fmt::Debug for JsonStr<'_> {
    /// Bodies never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonStr({:?}, {} bytes)", self.kind(), self.0.len())
    }
}

/// Steps over the values of one container that was checked before.
struct Walker<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walker<'a> {
    fn enter(container: JsonStr<'a>, opening: u8) -> Option<Self> {
        (container.0.as_bytes().first() == Some(&opening)).then_some(Self { text: container.0, at: 1 })
    }

    /// The next value; in an object, keys and values alternate. `None` at the closing bracket.
    fn next_value(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        let start = self.at;
        match bytes[start] {
            b'}' | b']' => return None,
            b'"' => self.at = string_end(bytes, start),
            b'{' | b'[' => self.skip_container(bytes),
            _ => {
                while !matches!(bytes.get(self.at)?, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') {
                    self.at += 1;
                }
            }
        }
        self.text.get(start..self.at)
    }

    fn skip_container(&mut self, bytes: &[u8]) {
        let mut depth = 0_usize;
        while let Some(byte) = bytes.get(self.at) {
            match BRACKETS[usize::from(*byte)] {
                Bracket::None => {
                    self.at += 1;
                    continue;
                }
                Bracket::Quote => {
                    self.at = string_end(bytes, self.at);
                    continue;
                }
                Bracket::Opening => depth += 1,
                Bracket::Closing => depth -= 1,
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

/// What a byte outside of strings means to one who skips a container.
#[derive(Clone, Copy)]
enum Bracket {
    None,
    Quote,
    Opening,
    Closing,
}

static BRACKETS: [Bracket; 256] = {
    let mut table = [Bracket::None; 256];
    table[b'"' as usize] = Bracket::Quote;
    table[b'{' as usize] = Bracket::Opening;
    table[b'[' as usize] = Bracket::Opening;
    table[b'}' as usize] = Bracket::Closing;
    table[b']' as usize] = Bracket::Closing;
    table
};

#[cfg(test)]
mod tests;
