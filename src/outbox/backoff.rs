//! How long to wait before the next attempt: exponential, with full jitter.
//!
//! The n-th attempt is followed by a pause between nothing and `first * 2^(n-1)`, at most `longest`,
//! every length as likely as any other. The jitter is the point: messages that failed together must
//! not come back together.
//!
//! Worked example, with `first` = 1 s and `longest` = 15 min:
//!
//! | after attempt | pause is drawn from | on average |
//! |---|---|---|
//! | 1 | 0 to 1 s | 0.5 s |
//! | 2 | 0 to 2 s | 1 s |
//! | 5 | 0 to 16 s | 8 s |
//! | 10 | 0 to 512 s | 4 min 16 s |
//! | 11 and later | 0 to 900 s | 7.5 min |
//!
//! So ten attempts take about 8.5 min on average, and a hundred about 11.4 h.

use std::time::Duration;

use uuid::Uuid;

/// The bounds of the pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest pause after the first attempt.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after the attempt number `attempts`, from 1; `fraction` is drawn from 0 to 1.
    #[must_use]
    pub fn pause(&self, attempts: u32, fraction: f64) -> Duration {
        let doublings = attempts.saturating_sub(1);
        let ceiling = self.first.saturating_mul(2_u32.saturating_pow(doublings)).min(self.longest);
        ceiling.mul_f64(fraction.clamp(0.0, 1.0))
    }
}

/// A fraction from 0 to 1 out of the random bits of a new id.
#[must_use]
pub fn fraction(id: Uuid) -> f64 {
    // The last 32 bits of a version 7 id are random.
    let [.., a, b, c, d] = *id.as_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(900) };

    #[test]
    fn the_worked_example_is_right() {
        for (attempt, ceiling) in [(1, 1), (2, 2), (5, 16), (10, 512), (11, 900), (100, 900), (u32::MAX, 900)]
        {
            assert_eq!(USUAL.pause(attempt, 1.0), Duration::from_secs(ceiling), "{attempt}");
            assert_eq!(USUAL.pause(attempt, 0.0), Duration::ZERO, "{attempt}");
        }
        let average = |attempts| (1..=attempts).map(|n| USUAL.pause(n, 0.5)).sum::<Duration>().as_secs();
        assert_eq!(average(10), 511);
        assert_eq!(average(100) / 360, 113, "tenths of an hour");
    }

    #[test]
    fn fractions_fill_their_range() {
        let fractions: Vec<f64> = (0..1000).map(|_| fraction(crate::clock::new_id())).collect();
        assert!(fractions.iter().all(|f| (0.0..=1.0).contains(f)));
        for tenth in 0..10 {
            let low = f64::from(tenth) / 10.0;
            assert!(fractions.iter().any(|f| (low..low + 0.1).contains(f)), "none from {low}");
        }
    }
}
