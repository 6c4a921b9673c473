//! `[relay]`: how the messages of the outbox are delivered, whatever their destination.

use std::time::Duration;

use serde::Deserialize;

use crate::outbox::lane::LaneOptions;

use super::duration::{self, show};
use super::report::Report;

/// What all destinations share.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelaySection {
    /// The longest a message waits for a relay that was told nothing.
    #[serde(with = "duration")]
    pub poll_every: Duration,
    /// How long a message stays with a relay that says nothing any more.
    #[serde(with = "duration")]
    pub lease: Duration,
    /// Whether to ask PostgreSQL for hints (LISTEN).
    pub listen: bool,
    /// A message that has come through so many hooklatches goes in circles and is given up.
    pub max_hops: u16,
    /// How long a stop waits for messages on their way.
    #[serde(with = "duration")]
    pub drain: Duration,
}

impl Default for RelaySection {
    fn default() -> Self {
        Self {
            poll_every: Duration::from_secs(1),
            lease: Duration::from_secs(30),
            listen: true,
            max_hops: 8,
            drain: Duration::from_secs(10),
        }
    }
}

const SHORTEST_POLL: Duration = Duration::from_millis(10);
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);
/// More hops than any chain that is meant has.
const MOST_HOPS: u16 = 1000;

impl RelaySection {
    pub(super) fn check(&self, report: &mut Report) {
        if self.poll_every < SHORTEST_POLL || self.poll_every > LONGEST_LEASE {
            report.error(
                "relay.poll_every",
                format!("write a time from {} to {}", show(SHORTEST_POLL), show(LONGEST_LEASE)),
            );
        }
        if self.lease < SHORTEST_LEASE || self.lease > LONGEST_LEASE {
            report.error(
                "relay.lease",
                format!("write a time from {} to {}", show(SHORTEST_LEASE), show(LONGEST_LEASE)),
            );
        }
        if !(1..=MOST_HOPS).contains(&self.max_hops) {
            report.error("relay.max_hops", format!("write a number from 1 to {MOST_HOPS}"));
        }
        if self.drain > LONGEST_LEASE {
            report.error("relay.drain", format!("write a time up to {}", show(LONGEST_LEASE)));
        }
    }

    /// As the lanes take it.
    #[must_use]
    pub fn options(&self) -> LaneOptions {
        LaneOptions {
            poll_every: self.poll_every,
            lease: self.lease,
            max_hops: self.max_hops,
            drain: self.drain,
        }
    }
}
