//! What a few schemes read from the body before or beside the signature: the same strict JSON as
//! everywhere.

use std::borrow::Cow;

use crate::json_scan::{JsonKind, JsonStr};

/// The body as a JSON value.
pub(super) fn root(body: &[u8]) -> Result<JsonStr<'_>, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    JsonStr::check(text).map_err(|_| "the body is not JSON that every reader reads the same way")
}

/// A string or an integer as text.
pub(super) fn scalar(value: JsonStr<'_>) -> Option<Cow<'_, str>> {
    match value.kind() {
        JsonKind::String => value.text(),
        JsonKind::Number => value.integer().map(Cow::Borrowed),
        _ => None,
    }
}

/// The text at a pointer of plain names.
pub(super) fn text_at<'a>(root: JsonStr<'a>, pointer: &str) -> Option<Cow<'a, str>> {
    at(root, pointer).and_then(scalar)
}

/// The value at a pointer of plain names: no escapes, no places in lists. Builds nothing, since it
/// stands on the way of every delivery of some senders.
pub(super) fn at<'a>(root: JsonStr<'a>, pointer: &str) -> Option<JsonStr<'a>> {
    pointer.split('/').skip(1).try_fold(root, |value, name| value.member(name))
}
