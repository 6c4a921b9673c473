//! Whether messages may leave for a destination, and how fast.
//!
//! Owns the breaker, the pace and the rest that a destination asked for, and takes in what operators
//! and other relays say. Tells its lane what to note of the destination; must not know the store, nor
//! what becomes of messages. Time is a parameter.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::{Breaker, Change};
use super::destination::{Answer, Meaning, Policy};
use super::pace::Pace;
use crate::store::outbox::DestinationState;

/// The longest that one answer may hold back a destination's other messages.
const LONGEST_HOLD: Duration = Duration::from_secs(5 * 60);

/// What operators and relays say of destinations, as it was read last.
#[derive(Debug)]
pub(super) struct Said {
    /// When the reading began.
    pub(super) at: Instant,
    pub(super) by_name: HashMap<String, DestinationState>,
}

/// The way to one destination.
#[derive(Debug)]
pub(super) struct Gate {
    breaker: Breaker,
    /// Since when others can read that the breaker is open.
    told_open: Option<Instant>,
    /// Since when others can read that it was paused because nothing is taken there any more.
    told_paused: Option<Instant>,
    pace: Pace,
    /// The destination asked for rest until then.
    hold_until: Option<Instant>,
    /// How often what others say is read.
    poll_every: Duration,
}

/// Whether messages may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Open,
    /// `None`: until somebody opens it.
    Closed {
        until: Option<Instant>,
    },
}

/// What an answer says of the destination, for others to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    None,
    /// Nothing is taken there any more: it is to be paused.
    Gone,
    /// It is left alone this long.
    LeftAlone(Duration),
    WorksAgain,
}

impl Gate {
    pub(super) fn new(policy: &Policy, poll_every: Duration) -> Self {
        Self {
            breaker: Breaker::new(policy.breaker),
            told_open: None,
            told_paused: None,
            pace: Pace::new(policy.rate_per_second),
            hold_until: None,
            poll_every,
        }
    }

    /// Takes in what operators and other relays say of `name`; returns where it stands.
    pub(super) fn hear(&mut self, name: &str, said: &Said, now: Instant) -> Standing {
        let state = said.by_name.get(name);
        let is_told_open = state.is_some_and(|state| state.open_reason.is_some());
        if !is_told_open && self.told_open.is_some_and(|told| said.at > told) {
            // An operator has resumed it, or it works for another relay.
            self.told_open = None;
            self.breaker.hurry(now);
        }
        if self.told_paused.is_some_and(|told| said.at <= told) {
            // Read before the pause was written, however long ago that is.
            return Standing::Closed { until: None };
        }
        self.told_paused = None;
        self.standing(state, said.at, now)
    }

    /// Others have been told of our open breaker.
    pub(super) fn told_open(&mut self, now: Instant) {
        self.told_open = Some(now);
    }

    /// The pause that [`Notice::Gone`] asks for has been written.
    pub(super) fn told_paused(&mut self, now: Instant) {
        self.told_paused = Some(now);
    }

    fn standing(&self, state: Option<&DestinationState>, said_at: Instant, now: Instant) -> Standing {
        if state.is_some_and(|state| state.paused_at.is_some()) {
            return Standing::Closed { until: None };
        }
        // Another relay's breaker; ours knows itself.
        let others = state.filter(|_| self.breaker.opens_at().is_none()).map(|state| state.open_for);
        let others = others.filter(|open_for| !open_for.is_zero()).map(|open_for| said_at + open_for);
        let ours = self.breaker.opens_at();
        match [others, ours, self.hold_until].into_iter().flatten().filter(|until| *until > now).max() {
            Some(until) => Standing::Closed { until: Some(until) },
            None => Standing::Open,
        }
    }

    /// How many messages may be on their way or held for it, of `wanted`.
    pub(super) fn allows(&self, wanted: usize, now: Instant) -> usize {
        self.breaker.allows(wanted, now)
    }

    /// Whether the next message may leave at this moment.
    pub(super) fn lets_one_through(&self, now: Instant) -> bool {
        self.breaker.allows(1, now) > 0 && self.pace.wait(now).is_none()
    }

    /// When the pace lets the next one go, if that is later than now.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.pace.wait(now)
    }

    /// A message has left.
    pub(super) fn left(&mut self, now: Instant) {
        self.breaker.sent();
        self.pace.left(now);
    }

    /// A message came back without a word of the destination.
    pub(super) fn unknown(&mut self) {
        self.breaker.unknown();
    }

    /// Judges the destination by an answer.
    pub(super) fn judge(&mut self, answer: &Answer, now: Instant) -> Notice {
        let change = match answer.meaning {
            // It answers, whatever it says of this message. No answer: our own refusal.
            Meaning::Accepted => self.breaker.succeeded(),
            Meaning::Refused if answer.status.is_some() => self.breaker.succeeded(),
            Meaning::Refused => {
                self.breaker.unknown();
                Change::None
            }
            Meaning::Gone => {
                self.breaker.unknown();
                // If the pause cannot be written, the next message finds out again.
                self.hold_until = Some(now + 2 * self.poll_every);
                return Notice::Gone;
            }
            Meaning::Throttled { retry_after } => {
                if let Some(wait) = retry_after {
                    self.hold_until = Some(now + wait.min(LONGEST_HOLD));
                }
                self.breaker.failed(now)
            }
            Meaning::Failed { .. } => self.breaker.failed(now),
        };
        match change {
            Change::None => Notice::None,
            Change::Opened(pause) => Notice::LeftAlone(pause),
            Change::Closed => Notice::WorksAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::backoff::Backoff;
    use super::super::breaker::BreakerRule;
    use super::super::destination::OnPoison;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_secs(3600);

    fn gate() -> Gate {
        let policy = Policy {
            concurrency: 4,
            rate_per_second: None,
            max_attempts: 10,
            max_age: LONG,
            backoff: Backoff { first: SECOND, longest: LONG },
            breaker: BreakerRule { failures: 2, pause: SECOND, longest: LONG },
            on_poison: OnPoison::Block,
        };
        Gate::new(&policy, SECOND)
    }

    fn said(paused: bool, open_for: Duration) -> DestinationState {
        DestinationState {
            name: "crm".to_owned(),
            paused_at: paused.then(chrono::DateTime::default),
            pause_reason: None,
            open_for,
            open_reason: Some("away".to_owned()),
        }
    }

    #[test]
    fn a_pause_has_no_end_and_another_relays_breaker_has_one() {
        let (gate, now) = (gate(), Instant::now());
        assert_eq!(gate.standing(None, now, now), Standing::Open);
        assert_eq!(gate.standing(Some(&said(true, SECOND)), now, now), Standing::Closed { until: None });
        let closed = Standing::Closed { until: Some(now + SECOND) };
        assert_eq!(gate.standing(Some(&said(false, SECOND)), now, now), closed);
        // However long ago that was read.
        assert_eq!(gate.standing(Some(&said(false, SECOND)), now, now + SECOND), Standing::Open);
    }

    #[test]
    fn who_resumes_a_destination_opens_the_breaker_that_others_were_told_of() {
        let (mut gate, now) = (gate(), Instant::now());
        let failed = Answer::none(Meaning::Failed { retry_after: None }, "away");
        gate.judge(&failed, now);
        assert_eq!(gate.judge(&failed, now), Notice::LeftAlone(SECOND));
        let nothing = |at| Said { at, by_name: HashMap::new() };
        let open = |at| Said { at, by_name: HashMap::from([("crm".to_owned(), said(false, SECOND))]) };
        let closed = Standing::Closed { until: Some(now + SECOND) };
        assert_eq!(gate.hear("crm", &nothing(now + SECOND / 4), now), closed, "nobody was told");
        gate.told_open(now + SECOND / 4);
        assert_eq!(gate.hear("crm", &nothing(now), now), closed, "it was read before");
        assert_eq!(gate.hear("crm", &open(now + SECOND / 2), now + SECOND / 2), closed);
        assert_eq!(gate.hear("crm", &nothing(now + SECOND / 2), now + SECOND / 2), Standing::Open);
        assert_eq!(gate.allows(10, now + SECOND / 2), 1, "one message is tried");
    }

    #[test]
    fn a_pause_of_its_own_counts_until_a_later_reading_speaks() {
        let (mut gate, now) = (gate(), Instant::now());
        let nothing = |at| Said { at, by_name: HashMap::new() };
        let paused =
            |at| Said { at, by_name: HashMap::from([("crm".to_owned(), said(true, Duration::ZERO))]) };
        let gone = Answer::none(Meaning::Gone, "gone");
        let late = now + LONG;
        assert_eq!(gate.judge(&gone, now), Notice::Gone);
        assert_eq!(gate.hear("crm", &nothing(now), late), Standing::Open, "it could not be written");
        assert_eq!(gate.judge(&gone, now), Notice::Gone);
        gate.told_paused(now + SECOND);
        let closed = Standing::Closed { until: None };
        assert_eq!(
            gate.hear("crm", &nothing(now + SECOND), late),
            closed,
            "no later reading, however late it is"
        );
        assert_eq!(gate.hear("crm", &paused(now + 2 * SECOND), late), closed);
        assert_eq!(gate.hear("crm", &nothing(now + 3 * SECOND), late), Standing::Open, "somebody resumed it");
    }

    #[test]
    fn the_wish_for_rest_holds_everything_but_not_for_longer_than_is_sensible() {
        let (mut gate, now) = (gate(), Instant::now());
        let throttled = Answer::none(Meaning::Throttled { retry_after: Some(LONG) }, "busy");
        assert_eq!(gate.judge(&throttled, now), Notice::None);
        assert_eq!(gate.standing(None, now, now), Standing::Closed { until: Some(now + LONGEST_HOLD) });
        assert_eq!(gate.standing(None, now, now + LONGEST_HOLD), Standing::Open);
    }

    #[test]
    fn what_was_never_sent_says_nothing_of_the_destination() {
        let (mut gate, now) = (gate(), Instant::now());
        for _ in 0..10 {
            assert_eq!(gate.judge(&Answer::none(Meaning::Refused, "unfit"), now), Notice::None);
        }
        assert_eq!(gate.standing(None, now, now), Standing::Open);
        let failed = Answer::none(Meaning::Failed { retry_after: None }, "away");
        assert_eq!(gate.judge(&failed, now), Notice::None);
        assert_eq!(gate.judge(&failed, now), Notice::LeftAlone(SECOND));
    }
}
