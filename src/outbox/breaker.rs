//! A circuit breaker: after so many failures in a row, a destination is left alone for a while.
//!
//! What waits then costs neither attempts nor connections. After the pause one message is tried; if
//! it gets through everything flows again, else the pause is doubled. Pure: time is a parameter.

use std::time::Duration;

use tokio::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRule {
    /// Failures in a row that open it.
    pub failures: u32,
    /// The first pause.
    pub pause: Duration,
    /// No pause is longer.
    pub longest: Duration,
}

/// A destination's breaker.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    rule: BreakerRule,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    /// Until then nothing is sent; then one message.
    Open {
        until: Instant,
        pause: Duration,
        probing: bool,
    },
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    /// Opened, or opened again, for this long.
    Opened(Duration),
    Closed,
}

impl Breaker {
    #[must_use]
    pub fn new(rule: BreakerRule) -> Self {
        Self { rule, state: State::Closed { failures: 0 } }
    }

    /// How many messages may be sent now, of `wanted`.
    #[must_use]
    pub fn allows(&self, wanted: usize, now: Instant) -> usize {
        match self.state {
            State::Closed { .. } => wanted,
            State::Open { until, probing: false, .. } if now >= until => wanted.min(1),
            State::Open { .. } => 0,
        }
    }

    /// When it is worth asking again; `None`: now, or when the message that is tried has landed.
    #[must_use]
    pub fn opens_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { until, probing: false, .. } => Some(until),
            State::Open { .. } | State::Closed { .. } => None,
        }
    }

    /// A message was sent.
    pub fn sent(&mut self) {
        if let State::Open { probing, .. } = &mut self.state {
            *probing = true;
        }
    }

    /// The destination answered sensibly.
    pub fn succeeded(&mut self) -> Change {
        let was_open = matches!(self.state, State::Open { .. });
        self.state = State::Closed { failures: 0 };
        if was_open { Change::Closed } else { Change::None }
    }

    /// The destination failed. Messages that were out when it opened do not count again.
    pub fn failed(&mut self, now: Instant) -> Change {
        let pause = match self.state {
            State::Closed { failures } if failures + 1 < self.rule.failures => {
                self.state = State::Closed { failures: failures + 1 };
                return Change::None;
            }
            State::Closed { .. } => self.rule.pause,
            State::Open { probing: false, .. } => return Change::None,
            State::Open { pause, .. } => pause.saturating_mul(2).min(self.rule.longest),
        };
        self.state = State::Open { until: now + pause, pause, probing: false };
        Change::Opened(pause)
    }

    /// Somebody says that it works: one message may be tried now.
    pub fn hurry(&mut self, now: Instant) {
        if let State::Open { until, probing: false, .. } = &mut self.state {
            *until = now.min(*until);
        }
    }

    /// The message that was tried came back without a word of the destination.
    pub fn unknown(&mut self) {
        if let State::Open { probing, .. } = &mut self.state {
            *probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RULE: BreakerRule = BreakerRule { failures: 3, pause: SECOND, longest: Duration::from_secs(3) };

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let now = Instant::now();
        let mut breaker = Breaker::new(RULE);
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.succeeded(), Change::None);
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.allows(10, now), 10);
        assert_eq!(breaker.failed(now), Change::Opened(SECOND));
        assert_eq!(breaker.allows(10, now), 0);
    }

    #[test]
    fn after_the_pause_one_message_is_tried_and_decides() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(BreakerRule { failures: 1, ..RULE });
        assert_eq!(breaker.failed(now), Change::Opened(SECOND));
        assert_eq!(breaker.failed(now), Change::None, "it was out before");
        for pause in [2, 3, 3] {
            now = breaker.opens_at().expect("it is open");
            assert_eq!(breaker.allows(10, now), 1);
            breaker.sent();
            assert_eq!(breaker.allows(10, now), 0, "one at a time");
            assert_eq!(breaker.failed(now), Change::Opened(Duration::from_secs(pause)));
        }
        now = breaker.opens_at().expect("it is open");
        breaker.sent();
        breaker.unknown();
        assert_eq!(breaker.allows(10, now), 1);
        breaker.sent();
        assert_eq!(breaker.succeeded(), Change::Closed);
        assert_eq!(breaker.allows(10, now), 10);
    }

    #[test]
    fn who_says_that_it_works_is_believed_as_far_as_one_message() {
        let now = Instant::now();
        let mut breaker = Breaker::new(BreakerRule { failures: 1, ..RULE });
        breaker.hurry(now);
        assert_eq!(breaker.allows(10, now), 10, "it was closed");
        breaker.failed(now);
        breaker.hurry(now);
        assert_eq!(breaker.allows(10, now), 1);
        breaker.sent();
        breaker.hurry(now);
        assert_eq!(breaker.allows(10, now), 0, "one at a time");
        assert_eq!(breaker.failed(now), Change::Opened(2 * SECOND));
    }
}
