//! What stands between the quotes of a JSON string: where it ends, and what it means.

use std::borrow::Cow;

/// A string token without its quotes.
pub(super) fn inner(token: &str) -> &str {
    token.get(1..token.len() - 1).unwrap_or_default()
}

/// Where the string that begins at `start` ends, in text that was checked before.
pub(super) fn string_end(bytes: &[u8], start: usize) -> usize {
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
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
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
pub(super) fn unescape(inner: &str) -> Cow<'_, [u8]> {
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
