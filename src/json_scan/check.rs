//! Is this text one JSON value, without what readers disagree about? One pass, from the front.

use std::borrow::Cow;

use super::strings::{plain_end, unescape};
use super::{JsonFault, MAX_DEPTH};

/// Up to so many keys, comparing each with each is faster than sorting.
pub(super) const FEW_KEYS: usize = 48;

/// Room for the keys that are open at a time in most texts.
const USUAL_KEYS: usize = 16;

pub(crate) const DUPLICATE_KEY: &str = "an object has the same key twice";

/// Reads a text once, from the front.
pub(super) struct Checker<'a> {
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
    /// The one value that `text` holds, without the blanks around it.
    pub(super) fn value_of(text: &'a str) -> Result<&'a str, JsonFault> {
        let mut checker = Self { text, bytes: text.as_bytes(), at: 0, keys: Vec::with_capacity(USUAL_KEYS) };
        checker.skip_blanks();
        let start = checker.at;
        checker.value(0)?;
        let end = checker.at;
        checker.skip_blanks();
        if checker.at != text.len() {
            return Err(checker.fault("something follows the JSON value"));
        }
        Ok(&text[start..end])
    }

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
