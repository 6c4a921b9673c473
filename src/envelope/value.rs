//! What the values of an envelope must be: ids, types, times, sequences.

use chrono::{DateTime, Datelike, Utc};

use super::error::Fault;
use super::locator::Scalar;
use crate::event::MAX_EVENT_ID_BYTES;

/// Longest event type accepted, in bytes.
pub const MAX_EVENT_TYPE_BYTES: usize = 255;

/// Integers above this are milliseconds: as seconds they would lie in the year 5138.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

/// An event id or the id of an entity: 1 to 1024 bytes, no control characters, not only blanks.
pub(super) fn check_identifier(text: &str) -> Result<(), Fault> {
    if text.trim().is_empty() {
        return Err(Fault::Invalid("is empty"));
    }
    if text.len() > MAX_EVENT_ID_BYTES {
        return Err(Fault::Invalid("is longer than 1024 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::Invalid("holds a control character"));
    }
    Ok(())
}

/// An event type: at most 255 bytes, no control characters.
pub(super) fn check_type(text: &str) -> Result<(), Fault> {
    if text.len() > MAX_EVENT_TYPE_BYTES {
        return Err(Fault::Invalid("is longer than 255 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::Invalid("holds a control character"));
    }
    Ok(())
}

/// A time: RFC 3339, or an integer (as a number or as text) of seconds or, if it is large, of
/// milliseconds since the epoch. Years 1 to 9999, which every store can hold.
pub(super) fn time(scalar: &Scalar<'_>) -> Result<DateTime<Utc>, Fault> {
    let text = scalar.as_str();
    let time = match integer(text) {
        Some(number) if number.unsigned_abs() > MILLISECONDS_FROM => DateTime::from_timestamp_millis(number),
        Some(number) => DateTime::from_timestamp_secs(number),
        None => DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()),
    };
    time.filter(|time| (1..=9999).contains(&time.year()))
        .ok_or(Fault::Invalid("is neither RFC 3339 nor an integer of seconds or milliseconds since 1970"))
}

/// A position: an integer, or a time as microseconds since the epoch.
pub(super) fn sequence(scalar: &Scalar<'_>) -> Result<i64, Fault> {
    let text = scalar.as_str();
    if let Some(number) = integer(text) {
        return Ok(number);
    }
    DateTime::parse_from_rfc3339(text)
        .map(|time| time.timestamp_micros())
        .map_err(|_| Fault::Invalid("is neither an integer of 64 bits nor an RFC 3339 time"))
}

/// Digits, perhaps after a minus, as JSON writes them.
fn integer(text: &str) -> Option<i64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Scalar<'_> {
        Scalar::Text(text.into())
    }

    #[test]
    fn times_are_read_in_seconds_milliseconds_and_rfc_3339() {
        let at = |seconds| Ok(DateTime::from_timestamp_secs(seconds).unwrap());
        assert_eq!(time(&Scalar::Integer("1700000000")), at(1_700_000_000));
        assert_eq!(time(&text("1700000000")), at(1_700_000_000));
        assert_eq!(time(&Scalar::Integer("1700000000000")), at(1_700_000_000));
        assert_eq!(time(&Scalar::Integer("100000000000")), at(100_000_000_000));
        assert_eq!(time(&Scalar::Integer("-1")), at(-1));
        assert_eq!(time(&text("2023-11-14T23:13:20+01:00")), at(1_700_000_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in [
            "",
            " ",
            "soon",
            "2023-11-14",
            "1.5",
            "9223372036854775807",
            "-9223372036854775808",
            "1e9",
            "0x1",
        ] {
            assert!(time(&text(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sequences_are_integers_or_times() {
        assert_eq!(sequence(&Scalar::Integer("-7")), Ok(-7));
        assert_eq!(sequence(&text("42")), Ok(42));
        assert_eq!(sequence(&text("1970-01-01T00:00:01.5Z")), Ok(1_500_000));
        assert!(sequence(&Scalar::Integer("9223372036854775808")).is_err());
        assert!(sequence(&text("v1")).is_err());
        assert!(sequence(&text("+1")).is_err());
    }

    #[test]
    fn ids_have_limits() {
        assert_eq!(check_identifier(&"x".repeat(1024)), Ok(()));
        assert_eq!(check_identifier("Ünï/😀 1"), Ok(()));
        for bad in [&"x".repeat(1025), "", "  ", "a\nb", "a\0", "a\u{7f}", "\u{85}"] {
            assert!(check_identifier(bad).is_err(), "{bad:?}");
        }
    }
}
