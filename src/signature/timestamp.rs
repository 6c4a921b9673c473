//! The time a sender signed, and whether it is near enough to ours.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use super::config::TimestampUnit;
use super::refusal::Refusal;

/// Digits of the largest number read: more than any date needs, too few to overflow.
const MAX_DIGITS: usize = 18;

/// How far a timestamp may lie from our clock. Exactly this far is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// `None`: any age, for senders that sign a time but do not say how near it must be.
    pub(super) past: Option<Duration>,
    /// `None`: any future, as several senders' own libraries have it.
    pub(super) future: Option<Duration>,
}

impl Window {
    /// Compares in the sender's own resolution, as the senders' libraries do: with whole seconds,
    /// a delivery of 300.9 s ago is 300 s old.
    pub(super) fn check(
        &self,
        at: DateTime<Utc>,
        now: DateTime<Utc>,
        unit: TimestampUnit,
    ) -> Result<(), Refusal> {
        let now_ms = match unit {
            TimestampUnit::Seconds => now.timestamp() * 1000,
            TimestampUnit::Milliseconds | TimestampUnit::Rfc3339 => now.timestamp_millis(),
        };
        let age_ms = now_ms - at.timestamp_millis();
        match (self.past, self.future) {
            (Some(past), _) if age_ms > millis(past) => {
                Err(Refusal::TooOld { age_seconds: age_ms / 1000, tolerance_seconds: past.as_secs() })
            }
            (_, Some(future)) if -age_ms > millis(future) => {
                Err(Refusal::InFuture { ahead_seconds: -age_ms / 1000, tolerance_seconds: future.as_secs() })
            }
            _ => Ok(()),
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Reads a timestamp: plain digits, without sign, blank, point or exponent; or RFC 3339.
pub(super) fn parse(text: &[u8], unit: TimestampUnit) -> Result<DateTime<Utc>, &'static str> {
    match unit {
        TimestampUnit::Seconds => {
            DateTime::from_timestamp_secs(digits(text)?).ok_or("the timestamp is beyond any calendar")
        }
        TimestampUnit::Milliseconds => {
            DateTime::from_timestamp_millis(digits(text)?).ok_or("the timestamp is beyond any calendar")
        }
        TimestampUnit::Rfc3339 => {
            let text = std::str::from_utf8(text).map_err(|_| "the timestamp is not an RFC 3339 time")?;
            DateTime::parse_from_rfc3339(text)
                .map(|time| time.to_utc())
                .map_err(|_| "the timestamp is not an RFC 3339 time")
        }
    }
}

fn digits(text: &[u8]) -> Result<i64, &'static str> {
    if text.is_empty() {
        return Err("the timestamp is empty");
    }
    if text.len() > MAX_DIGITS {
        return Err("the timestamp has too many digits");
    }
    let mut number = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            return Err("the timestamp is not plain digits");
        }
        number = number * 10 + i64::from(byte - b'0');
    }
    Ok(number)
}

/// Writes a timestamp the way a sender would.
pub(super) fn format(now: DateTime<Utc>, unit: TimestampUnit) -> String {
    match unit {
        TimestampUnit::Seconds => now.timestamp().to_string(),
        TimestampUnit::Milliseconds => now.timestamp_millis().to_string(),
        TimestampUnit::Rfc3339 => now.to_rfc3339_opts(SecondsFormat::Secs, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_secs(seconds).unwrap()
    }

    #[test]
    fn only_plain_digits_are_a_number() {
        for bad in ["", "+1", "-1", " 1", "1 ", "1.0", "1e9", "0x1", "99999999999999999999", "١"] {
            assert!(parse(bad.as_bytes(), TimestampUnit::Seconds).is_err(), "{bad:?}");
            assert!(parse(bad.as_bytes(), TimestampUnit::Milliseconds).is_err(), "{bad:?}");
        }
        assert!(parse(b"999999999999999999", TimestampUnit::Seconds).is_err());
        assert_eq!(parse(b"1700000000", TimestampUnit::Seconds), Ok(at(NOW)));
        assert_eq!(parse(b"1700000000000", TimestampUnit::Milliseconds), Ok(at(NOW)));
        assert_eq!(parse(b"2023-11-14T22:13:20Z", TimestampUnit::Rfc3339), Ok(at(NOW)));
        assert!(parse(b"2023-11-14", TimestampUnit::Rfc3339).is_err());
        assert!(parse(b"\xff", TimestampUnit::Rfc3339).is_err());
    }

    #[test]
    fn exactly_the_tolerance_is_accepted_and_a_second_more_is_not() {
        let five = Duration::from_mins(5);
        let window = Window { past: Some(five), future: Some(five) };
        let now = at(NOW) + Duration::from_millis(900);
        let check = |seconds| window.check(at(seconds), now, TimestampUnit::Seconds);
        assert_eq!(check(NOW - 300), Ok(()));
        assert_eq!(check(NOW + 300), Ok(()));
        assert_eq!(check(NOW - 301), Err(Refusal::TooOld { age_seconds: 301, tolerance_seconds: 300 }));
        assert_eq!(check(NOW + 301), Err(Refusal::InFuture { ahead_seconds: 301, tolerance_seconds: 300 }));
        assert!(check(0).is_err());
    }

    #[test]
    fn a_window_without_future_accepts_any_future() {
        let window = Window { past: Some(Duration::from_secs(5)), future: None };
        assert_eq!(window.check(at(NOW + 31_536_000), at(NOW), TimestampUnit::Seconds), Ok(()));
    }
}
