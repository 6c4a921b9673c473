//! JSON as it was sent: checked in one pass, walked without building a tree.
//!
//! A [`JsonStr`] is one complete value of RFC 8259 text. Whatever it hands out is a slice of the
//! text, so numbers and strings stay exactly as the sender wrote them. Two things that JSON allows
//! are refused, because readers disagree about them: an object with the same key twice, and
//! nesting deeper than [`MAX_DEPTH`]. Nothing here knows what the values mean.

use std::borrow::Cow;
use std::fmt;

/// Most arrays and objects within each other. With the innermost value that makes 128 levels,
/// which is as far as `serde_json` reads: code behind us can read whatever is accepted here.
pub const MAX_DEPTH: usize = 127;

/// Up to so many keys, comparing each with each is faster than sorting.
const FEW_KEYS: usize = 48;

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
        let mut checker = Checker { text, bytes: text.as_bytes(), at: 0, keys: Vec::new() };
        checker.skip_blanks();
        let start = checker.at;
        checker.value(0)?;
        let end = checker.at;
        checker.skip_blanks();
        if checker.at != text.len() {
            return Err(checker.fault("something follows the JSON value"));
        }
        Ok(Self(&text[start..end]))
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

/// A string token without its quotes.
fn inner(token: &str) -> &str {
    token.get(1..token.len() - 1).unwrap_or_default()
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

/// Where the string that begins at `start` ends, in text that was checked before.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return (at + 1).min(bytes.len()),
            Some(_) => at += 1,
        }
    }
}

/// The first byte at or after `at` that means something in a string: a quote, a backslash, a
/// control character. Eight bytes at a time, with the classic test for a zero byte in a word; its
/// lowest hit is exact.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTE: u64 = u64::from_le_bytes([b'"'; 8]);
    const BACKSLASH: u64 = u64::from_le_bytes([b'\\'; 8]);
    const BLANK: u64 = u64::from_le_bytes([b' '; 8]);
    let zero_byte = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        let below_blank = word.wrapping_sub(BLANK) & !word & HIGH;
        let hits = zero_byte(word ^ QUOTE) | zero_byte(word ^ BACKSLASH) | below_blank;
        if hits != 0 {
            return at + (hits.trailing_zeros() / u8::BITS) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        at += 1;
    }
    at
}

/// The bytes that the inside of a string token stands for. UTF-8, except that half of a surrogate
/// pair becomes the three bytes it would have in UTF-8: different strings stay different.
fn unescape(inner: &str) -> Cow<'_, [u8]> {
    let Some(first) = inner.find('\\') else {
        return Cow::Borrowed(inner.as_bytes());
    };
    let mut out = Vec::with_capacity(inner.len());
    out.extend_from_slice(&inner.as_bytes()[..first]);
    let mut rest = &inner.as_bytes()[first..];
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let [escape, tail @ ..] = rest else { break };
        rest = tail;
        match escape {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => rest = push_unit(&mut out, rest),
            other => out.push(*other),
        }
    }
    Cow::Owned(out)
}

/// Resolves the escape whose four digits begin `rest`, with the second half of a pair if there is
/// one; returns what follows.
fn push_unit<'t>(out: &mut Vec<u8>, rest: &'t [u8]) -> &'t [u8] {
    let Some((high, after)) = hex_unit(rest) else { return rest };
    if let (0xd800..=0xdbff, [b'\\', b'u', tail @ ..]) = (high, after)
        && let Some((low @ 0xdc00..=0xdfff, after_pair)) = hex_unit(tail)
    {
        let point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        push_char(out, char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
        return after_pair;
    }
    match char::from_u32(high) {
        Some(character) => push_char(out, character),
        None => out.extend_from_slice(&[
            0xe0 | low_byte(high >> 12),
            0x80 | low_byte((high >> 6) & 0x3f),
            0x80 | low_byte(high & 0x3f),
        ]),
    }
    after
}

fn hex_unit(digits: &[u8]) -> Option<(u32, &[u8])> {
    let (four, rest) = digits.split_first_chunk::<4>()?;
    let mut unit = 0;
    for digit in four {
        unit = unit * 16 + char::from(*digit).to_digit(16)?;
    }
    Some((unit, rest))
}

fn push_char(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn low_byte(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

/// Reads a text once, from the front.
struct Checker<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The keys of the objects that are open, innermost last, with their places.
    keys: Vec<Key<'a>>,
}

/// A key with its escapes resolved, and where it stands.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// Tells most keys apart without looking at their text.
    digest: u64,
    text: Cow<'a, [u8]>,
    offset: usize,
}

impl<'a> Key<'a> {
    fn new(text: Cow<'a, [u8]>, offset: usize) -> Self {
        let ends = (text.first_chunk(), text.last_chunk());
        let digest = if let (Some(first), Some(last)) = ends {
            u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(32) ^ text.len() as u64
        } else {
            text.iter().fold(0, |digest, byte| digest << 8 | u64::from(*byte))
        };
        Self { digest, text, offset }
    }

    fn is_again(&self, other: &Self) -> bool {
        self.digest == other.digest && self.text == other.text
    }
}

impl<'a> Checker<'a> {
    fn fault(&self, problem: &'static str) -> JsonFault {
        let problem = if self.at >= self.bytes.len() { "the text ends too early" } else { problem };
        JsonFault { problem, offset: self.at }
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonFault> {
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(|_| ()),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.fault("a value is missing")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.open(depth)?;
        let first_key = self.keys.len();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let start = self.at;
            if self.bytes.get(start) != Some(&b'"') {
                return Err(self.fault("a key is missing"));
            }
            let text = match self.string()? {
                (inner, false) => Cow::Borrowed(inner.as_bytes()),
                (inner, true) => unescape(inner),
            };
            self.keep_key(Key::new(text, start), first_key)?;
            self.skip_blanks();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.fault("a colon is missing"));
            }
            self.at += 1;
            self.skip_blanks();
            self.value(depth)?;
            if self.ends_with(b'}')? {
                break;
            }
        }
        let keys = &mut self.keys[first_key..];
        if keys.len() > FEW_KEYS {
            keys.sort_unstable();
            if let Some(pair) = keys.windows(2).find(|pair| pair[0].is_again(&pair[1])) {
                return Err(JsonFault { problem: DUPLICATE_KEY, offset: pair[1].offset });
            }
        }
        self.keys.truncate(first_key);
        Ok(())
    }

    /// Among few keys, a repeated one is found at once; among many, when the object ends.
    fn keep_key(&mut self, key: Key<'a>, first: usize) -> Result<(), JsonFault> {
        let before = &self.keys[first..];
        if before.len() < FEW_KEYS && before.iter().any(|other| other.is_again(&key)) {
            return Err(JsonFault { problem: DUPLICATE_KEY, offset: key.offset });
        }
        self.keys.push(key);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.open(depth)?;
        if self.bytes.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth)?;
            if self.ends_with(b']')? {
                return Ok(());
            }
        }
    }

    fn open(&mut self, depth: usize) -> Result<(), JsonFault> {
        if depth > MAX_DEPTH {
            return Err(self.fault("arrays and objects are nested deeper than 127"));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    /// After a value of a container: whether `closing` follows, or a comma and one more.
    fn ends_with(&mut self, closing: u8) -> Result<bool, JsonFault> {
        self.skip_blanks();
        match self.bytes.get(self.at) {
            Some(byte) if *byte == closing => {
                self.at += 1;
                Ok(true)
            }
            Some(b',') => {
                self.at += 1;
                self.skip_blanks();
                Ok(false)
            }
            _ => Err(self.fault("a comma or a closing bracket is missing")),
        }
    }

    /// The inside of a string, and whether it has escapes.
    fn string(&mut self) -> Result<(&'a str, bool), JsonFault> {
        let start = self.at + 1;
        let mut escapes = false;
        self.at = start;
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((&self.text[start..self.at - 1], escapes));
                }
                Some(b'\\') => {
                    escapes = true;
                    self.escape()?;
                }
                _ => return Err(self.fault("a control character stands in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonFault> {
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.bytes.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                        return Err(self.fault("an escape is not four hex digits"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.fault("JSON knows no such escape")),
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), JsonFault> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.fault("a value is missing"))
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("a digit is missing")) } else { Ok(()) }
    }
}

const DUPLICATE_KEY: &str = "an object has the same key twice";

#[cfg(test)]
mod tests;
