//! What a row, an age or a handler's result means for an event.
//!
//! Pure, and the same whichever way a batch takes.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::EventKey;
use crate::handler::HandlerReply;
use crate::inbox::apply::Mode;
use crate::inbox::outcome::EventState;
use crate::inbox::slots::{Fate, Slots, Standing};
use crate::reply::{FINAL_STATUSES, Reply};
use crate::source::{ReplayErrors, Source};
use crate::store::{Age, DeathCause, HandlerResult, StoredEvent};

/// With a memory of events at least this long, half of it outweighs any difference between this
/// machine's clock and the database's.
const TRUSTED_CLOCKS: Duration = Duration::from_secs(60 * 60);

/// Whether a stored row still stands for its event. A rejected event has not taken effect: it
/// counts only while its answer is replayed.
pub(super) fn counts(row: &StoredEvent, source: &Source, mode: &Mode) -> bool {
    match (row.state, row.age) {
        (_, Age::Expired) => false,
        (EventState::Rejected, Age::AnswerLive) => {
            !matches!(mode, Mode::Retry) && source.replay_errors != ReplayErrors::None
        }
        (EventState::Rejected, Age::EventLive) => false,
        (EventState::Applied | EventState::Ignored | EventState::Stale, Age::AnswerLive | Age::EventLive) => {
            true
        }
    }
}

/// Whether an event is so young that no difference of clocks can make it too old: the database need
/// not be asked for its time.
pub(super) fn is_plainly_young(
    occurred_at: DateTime<Utc>,
    received_at: DateTime<Utc>,
    memory: Duration,
) -> bool {
    let age = (received_at - occurred_at).to_std().unwrap_or_default();
    age < memory / 2 && memory >= TRUSTED_CLOCKS
}

pub(super) fn fate_of(result: HandlerResult, source: &Source, key: &EventKey) -> Fate {
    match result {
        HandlerResult::Applied(reply) => Fate::Applied(reply.map(|own| own_reply(own, source, key))),
        HandlerResult::Failed { permanent: true, reason } => {
            Fate::Rejected { cause: DeathCause::Rejected, reason }
        }
        HandlerResult::Failed { permanent: false, reason } if source.replay_errors == ReplayErrors::All => {
            Fate::Rejected { cause: DeathCause::Failed, reason }
        }
        HandlerResult::Failed { permanent: false, reason } => Fate::Failed { reason },
    }
}

/// A handler's own answer, whole: what it left out is taken from the standard one.
fn own_reply(own: HandlerReply, source: &Source, key: &EventKey) -> Reply {
    // Another is a mistake of Rust code; SQL's was refused before.
    let status = own.status.filter(|status| FINAL_STATUSES.contains(status)).unwrap_or(source.success_status);
    let mut reply = Reply::standard(EventState::Applied, status, key);
    if let Some(body) = own.body {
        reply.body = body.into();
    }
    for (name, value) in own.headers {
        let name = name.to_ascii_lowercase();
        reply.headers.retain(|(other, _)| *other != name);
        reply.headers.push((name.into(), value.into()));
    }
    reply
}

/// Events that a handler failed on.
pub(super) fn count_poisoned(slots: &Slots<'_>) -> usize {
    let poisoned = |standing: &Standing| {
        matches!(standing, Standing::Settled(Fate::Rejected { cause, .. }) if *cause != DeathCause::TooOld)
            || matches!(standing, Standing::Settled(Fate::Failed { .. }))
    };
    slots.slots.iter().filter(|slot| poisoned(&slot.standing)).count()
}
