//! The only place that reads the wall clock.
//!
//! Everything else takes time as a parameter or holds a [`Clock`], so that a test decides what
//! time it is. `clippy.toml` forbids `Utc::now` and its siblings elsewhere. Expiry of stored rows
//! does not use this clock on PostgreSQL: there the database's own clock decides.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

/// A source of the current time, cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>);

impl Clock {
    /// The system's wall clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn system() -> Self {
        Self(Arc::new(Utc::now))
    }

    /// A clock that asks `now`, for tests that decide what time it is.
    pub fn from_fn(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A new time-ordered id (UUID version 7) for a delivery, a dead letter, a message.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that makes ids")]
pub fn new_id() -> uuid::Uuid {
    uuid::Uuid::now_v7()
}

/// The smallest id that [`new_id`] can have made at `time`.
#[must_use]
pub fn first_id_at(time: DateTime<Utc>) -> uuid::Uuid {
    const BITS_AFTER_THE_TIME: u32 = 80;
    let milliseconds = u128::try_from(time.timestamp_millis()).unwrap_or(0);
    uuid::Uuid::from_u128(milliseconds << BITS_AFTER_THE_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_lies_between_the_first_ones_of_its_minute_and_the_next() {
        let (id, now) = (new_id(), Clock::system().now());
        let minute = chrono::TimeDelta::minutes(1);
        assert!(first_id_at(now - minute) < id && id < first_id_at(now + minute), "{id}");
    }
}
