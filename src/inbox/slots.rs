//! The distinct events of a batch, each with what is known of it so far.
//!
//! A batch may meet one event several times. The first delivery to bring it owns its slot; the
//! others follow and get the owner's answer. Pure: no SQL, no clock.

use std::collections::HashMap;

use crate::event::{Delivery, EventKey, Fingerprint};
use crate::inbox::outcome::EventState;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::source::HandlerMask;
use crate::store::{DeathCause, FreshEvent, NewEvent, StoredEvent};

/// One distinct event of a batch.
pub(super) struct Slot<'a> {
    /// The event as its owner brought it.
    pub fresh: FreshEvent<'a>,
    /// The owner's place in the batch.
    pub owner: usize,
    /// The handlers it runs through.
    pub mask: HandlerMask,
    pub fingerprint: Option<Fingerprint>,
    /// A rejected row stood in its place and was removed: its dead letter goes when it succeeds.
    pub was_rejected: bool,
    pub standing: Standing,
}

impl<'a> Slot<'a> {
    pub fn key(&self) -> &'a EventKey {
        &self.fresh.event.key
    }

    /// The row that announces the event as fresh. It says what will be true if all goes well, so
    /// that the common case writes it once.
    pub fn row(&self) -> NewEvent<'a> {
        NewEvent {
            event: self.fresh.event,
            source: &self.fresh.delivery.source.name,
            state: if self.mask.is_empty() { EventState::Ignored } else { EventState::Applied },
            status: self.fresh.delivery.source.success_status,
            fingerprint: self.fingerprint,
        }
    }
}

/// Whether a slot's event is new, and what became of it.
pub(super) enum Standing {
    /// Not known yet, or new and waiting for its handlers.
    Pending,
    /// Processed before.
    Stored(StoredEvent),
    /// New in this batch: what became of it.
    Settled(Fate),
}

/// What became of a new event.
#[derive(Clone)]
pub(super) enum Fate {
    /// `Some`: a handler's own answer.
    Applied(Option<Reply>),
    Ignored,
    Stale,
    /// Undone and kept as a dead letter.
    Rejected {
        cause: DeathCause,
        reason: String,
    },
    /// Undone, nothing stored: the sender comes again.
    Failed {
        reason: String,
    },
}

impl Fate {
    /// State, status and own answer of the row, when the fate leaves one.
    pub fn stored_as(&self, success_status: u16) -> Option<(EventState, u16, Option<Reply>)> {
        match self {
            Self::Applied(reply) => {
                let status = reply.as_ref().map_or(success_status, |r| r.status);
                Some((EventState::Applied, status, reply.clone()))
            }
            Self::Ignored => Some((EventState::Ignored, success_status, None)),
            Self::Stale => Some((EventState::Stale, success_status, None)),
            Self::Rejected { cause, .. } => {
                let (problem, own) = match cause {
                    DeathCause::Rejected => (Problem::EventRejected, false),
                    DeathCause::Failed => (Problem::EventFailed, false),
                    DeathCause::TooOld => (Problem::EventTooOld, true),
                };
                Some((EventState::Rejected, problem.status(), own.then(|| problem.reply())))
            }
            Self::Failed { .. } => None,
        }
    }
}

/// The distinct events of a batch.
pub(super) struct Slots<'a> {
    /// Sorted by event key, so that replicas insert in one order and cannot deadlock.
    pub slots: Vec<Slot<'a>>,
    by_key: HashMap<&'a EventKey, usize>,
}

impl<'a> Slots<'a> {
    /// Collects the events of those deliveries that `takes_part` says are not settled yet.
    pub fn collect(deliveries: &[&'a Delivery], takes_part: impl Fn(usize) -> bool) -> Self {
        let mut first: HashMap<&'a EventKey, Slot<'a>> = HashMap::with_capacity(deliveries.len());
        for (owner, delivery) in deliveries.iter().copied().enumerate() {
            if !takes_part(owner) {
                continue;
            }
            for event in &delivery.events {
                first.entry(&event.key).or_insert_with(|| Slot {
                    fresh: FreshEvent { event, delivery },
                    owner,
                    mask: delivery.source.plan(&event.event_type),
                    fingerprint: inline_fingerprint(delivery),
                    was_rejected: false,
                    standing: Standing::Pending,
                });
            }
        }
        let mut slots: Vec<_> = first.into_values().collect();
        slots.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        let by_key = slots.iter().enumerate().map(|(at, slot)| (slot.key(), at)).collect();
        Self { slots, by_key }
    }

    /// The slot of an event that takes part.
    pub fn of(&self, key: &EventKey) -> Option<&Slot<'a>> {
        self.by_key.get(key).map(|&at| &self.slots[at])
    }

    /// Whether one of the delivery's events has taken effect, in this batch or before.
    pub fn took_effect(&self, delivery: &Delivery) -> bool {
        delivery.events.iter().filter_map(|event| self.of(&event.key)).any(|slot| match &slot.standing {
            Standing::Stored(row) => row.state != EventState::Rejected,
            Standing::Settled(Fate::Applied(_) | Fate::Ignored | Fate::Stale) => true,
            Standing::Settled(Fate::Rejected { .. } | Fate::Failed { .. }) | Standing::Pending => false,
        })
    }

    /// The places of the slots that wait for their handlers, in order of arrival.
    pub fn pending_in_arrival_order(&self) -> Vec<usize> {
        let mut pending: Vec<usize> = (0..self.slots.len())
            .filter(|&at| matches!(self.slots[at].standing, Standing::Pending))
            .collect();
        // Within one delivery the events stand in one allocation: their addresses are their order.
        pending.sort_by_key(|&at| {
            let slot = &self.slots[at];
            (slot.owner, std::ptr::from_ref(slot.fresh.event).addr())
        });
        pending
    }
}

/// The fingerprint of a delivery whose explicit key is its event id: it stands in the event's row.
pub(super) fn inline_fingerprint(delivery: &Delivery) -> Option<Fingerprint> {
    let explicit = delivery.explicit_key.as_ref()?;
    key_is_event_id(delivery).then_some(explicit.fingerprint)
}

/// Whether the explicit key needs no row of its own.
pub(super) fn key_is_event_id(delivery: &Delivery) -> bool {
    match (&delivery.explicit_key, delivery.events.as_slice()) {
        (Some(explicit), [event]) => !delivery.is_batch && explicit.key.as_str() == &*event.key.event_id,
        _ => false,
    }
}
