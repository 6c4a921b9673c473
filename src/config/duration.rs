//! Durations as people write them: `"500ms"`, `"30s"`, `"24h"`, `"30d"`.
//!
//! For `#[serde(with = "duration")]` and, as [`parse`], for command-line options.

use std::time::Duration;

use serde::{Deserializer, de};

/// Reads a duration.
///
/// # Errors
/// In words, when the text is none.
pub fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| {
        format!("{text:?} is not a duration; write a number with a unit, such as \"500ms\", \"30s\", \"24h\" or \"30d\"")
    })
}

/// A duration the way the configuration writes it, in the largest unit that fits.
#[must_use]
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(24 * 60 * 60 * 1000, "d"), (60 * 60 * 1000, "h"), (60 * 1000, "m"), (1000, "s")];
    match units.iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

/// For required and defaulted fields.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(DurationText)
}

/// For fields that may be absent.
pub(super) mod option {
    use super::{Deserializer, Duration};

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

struct DurationText;

impl de::Visitor<'_> for DurationText {
    type Value = Duration;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration with its unit, such as \"30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(E::custom)
    }
}
