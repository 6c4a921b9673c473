//! What a few schemes read from the body before or beside the signature: the same strict JSON as
//! everywhere.

use std::borrow::Cow;

use crate::json_pointer::JsonPointer;
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

/// The text at a pointer that is known to be one.
pub(super) fn text_at<'a>(root: JsonStr<'a>, pointer: &str) -> Option<Cow<'a, str>> {
    at(root, pointer).and_then(scalar)
}

/// The value at a pointer that is known to be one.
pub(super) fn at<'a>(root: JsonStr<'a>, pointer: &str) -> Option<JsonStr<'a>> {
    JsonPointer::parse(pointer).ok()?.find(root)
}
