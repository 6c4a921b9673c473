//! Reading headers strictly: once, printable, not empty.

use super::refusal::Refusal;
use crate::event::RawRequest;

/// The parts of a header value, without the blanks around them; the whole value when there is no
/// separator. Where the separator is a blank, several count as one.
pub(super) fn entries(header: &str, separator: Option<u8>) -> impl Iterator<Item = &str> {
    let pieces = header.split(move |c| separator.is_some_and(|s| c == char::from(s)));
    pieces
        .map(move |piece| if separator.is_some() { piece.trim_matches([' ', '\t']) } else { piece })
        .filter(move |piece| separator != Some(b' ') || !piece.is_empty())
}

/// The value of a header that must be there once.
pub(super) fn single<'r>(request: &'r RawRequest, name: &str) -> Result<&'r str, Refusal> {
    let mut values = request.header_values(name);
    let Some(value) = values.next() else {
        return Err(Refusal::MissingHeader { header: name.to_owned() });
    };
    if values.next().is_some() {
        return Err(Refusal::RepeatedHeader { header: name.to_owned() });
    }
    let malformed = |problem| Refusal::MalformedHeader { header: name.to_owned(), problem };
    if value.is_empty() {
        return Err(malformed("it is empty"));
    }
    match std::str::from_utf8(value) {
        Ok(text) if text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) => Ok(text),
        _ => Err(malformed("it is not printable ASCII")),
    }
}

/// The value of the one parameter `name` in the query of a request target, as it was sent.
pub(super) fn query_parameter<'t>(target: &'t str, name: &str) -> Option<&'t str> {
    let (_, query) = target.split_once('?')?;
    let mut values =
        query.split('&').filter_map(|pair| pair.split_once('=').filter(|(n, _)| *n == name).map(|(_, v)| v));
    let value = values.next()?;
    values.next().is_none().then_some(value)
}
