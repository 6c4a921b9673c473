//! A rate limit: so many messages a second, evenly, with a burst of at most one second's worth.
//!
//! Pure: time is a parameter.

use std::time::Duration;

use tokio::time::Instant;

/// Says when the next message may leave.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// `None`: no limit.
    between: Option<Duration>,
    /// When the next message is due if all left evenly; in the past while there is room for a burst.
    next: Option<Instant>,
}

/// What a pause may save up.
const BURST: Duration = Duration::from_secs(1);

impl Pace {
    /// `per_second`: `None` for no limit; zero counts as one.
    #[must_use]
    pub fn new(per_second: Option<u32>) -> Self {
        Self { between: per_second.map(|rate| Duration::from_secs(1) / rate.max(1)), next: None }
    }

    /// When a message may leave; `None`: now.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| self.between.is_some() && *next > now)
    }

    /// A message left.
    pub fn left(&mut self, now: Instant) {
        let Some(between) = self.between else { return };
        // One message may always leave at once, so the burst counts it.
        let earliest = now.checked_sub(BURST.saturating_sub(between)).unwrap_or(now);
        self.next = Some(self.next.unwrap_or(earliest).max(earliest) + between);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages leave within `time` if they always want to.
    fn leave(pace: &mut Pace, start: Instant, time: Duration) -> u32 {
        let mut now = start;
        let mut left = 0;
        while now < start + time {
            match pace.wait(now) {
                Some(next) => now = next,
                None => {
                    pace.left(now);
                    left += 1;
                }
            }
        }
        left
    }

    #[test]
    fn a_burst_is_a_seconds_worth_and_then_the_rate_holds() {
        let start = Instant::now() + Duration::from_secs(3600);
        let mut pace = Pace::new(Some(10));
        assert_eq!(leave(&mut pace, start, Duration::from_millis(1)), 10);
        assert_eq!(leave(&mut pace, start + Duration::from_millis(1), Duration::from_secs(10)), 100);
        assert_eq!(leave(&mut pace, start + Duration::from_secs(100), Duration::from_millis(1)), 10);
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let now = Instant::now();
        let mut pace = Pace::new(None);
        pace.left(now);
        assert_eq!(pace.wait(now), None);
    }
}
