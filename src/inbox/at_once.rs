//! The short way of a plain batch: one statement that inserts the keys, runs the handler and commits.
//!
//! Most batches are plain: single events of one source without order, guard or key of their own, all
//! run through one handler. A store that can serve them in one statement is spared a transaction's
//! other round trips. Events that were there before are read back by a second one, and those that are likely
//! to be there by that alone. Events that the handler fails on, where that was expected, are left out of what
//! the statement commits; another keeps them as rejected (`aside.rs`). What none of these settles (an event
//! whose row has expired, for one) goes the usual way (`apply.rs`).

use std::time::Duration;

use tokio::time::Instant;

use crate::clock;
use crate::event::{Delivery, EventKey};
use crate::handler::Step;
use crate::inbox::answers::{self, Composed};
use crate::inbox::apply::{Care, Mode, NotCommitted, Terms};
use crate::inbox::foresight::Expected;
use crate::inbox::judgement::{counts, fate_of, is_plainly_young};
use crate::inbox::slots::{Fate, Slot, Slots, Standing, key_is_event_id};
use crate::store::{
    AtOnce, EventAtOnce, FreshEvent, HandlerResult, NewDeadLetter, NewEvent, Rejection, SqlHandler, Store,
    StoredEvent, Windows,
};

/// What one statement has settled.
pub(super) struct Settled {
    /// In the order of the deliveries.
    pub fates: Vec<AtOnceFate>,
    /// What was read along, in the order asked.
    pub along: Vec<Option<StoredEvent>>,
    /// When the statement began.
    pub began: Instant,
    pub took: Duration,
}

/// What became of a delivery in one statement.
#[expect(clippy::large_enum_variant, reason = "nearly all are answered, and gone in a moment")]
pub(super) enum AtOnceFate {
    Answered(Composed),
    /// The handler failed on it: it is to be kept as `reject_at_once` does.
    Failed(Fate),
    /// It goes the usual way.
    Unsettled,
}

/// What is known of a batch beforehand.
pub(super) struct Known<'a> {
    /// Of a delivery's place: its event was known a while ago, and is looked up only.
    pub is_repetition: &'a (dyn Fn(usize) -> bool + Sync),
    /// Other events whose rows are read along, if any are.
    pub along: &'a [Expected],
}

/// Settles what one statement can. `None`: nothing, and nothing was done.
pub(super) async fn apply_at_once(
    store: &dyn Store,
    deliveries: &[&Delivery],
    beforehand: Known<'_>,
    terms: &Terms,
    care: Care,
) -> Result<Option<Settled>, NotCommitted> {
    let Some(first) = deliveries.first() else { return Ok(None) };
    let is_plain = |delivery: &&Delivery| is_plain(delivery, first, terms.windows.events);
    if !deliveries.iter().all(is_plain) {
        return Ok(None);
    }
    let mut slots = Slots::collect(deliveries, |_| true);
    let Some(handler) = only_handler(&slots) else { return Ok(None) };

    let began = Instant::now();
    let (mut known, arrived): (Vec<usize>, Vec<usize>) = slots
        .pending_in_arrival_order()
        .into_iter()
        .partition(|&at| (beforehand.is_repetition)(slots.slots[at].owner));
    let fresh: Vec<FreshEvent<'_>> = arrived.iter().map(|&at| slots.slots[at].fresh).collect();
    let rows: Vec<NewEvent<'_>> = arrived.iter().map(|&at| slots.slots[at].row()).collect();
    let chunk = match care {
        Care::Trust => None,
        Care::Chunks(chunk) => Some(chunk),
    };
    let made = match arrived.as_slice() {
        [] => Vec::new(),
        _ => match store.apply_at_once(&rows, &fresh, handler, chunk).await? {
            AtOnce::Committed(made) => made,
            AtOnce::HandlerFailed => return Err(NotCommitted::HandlerFailed),
            AtOnce::Unsupported => return Ok(None),
        },
    };
    for (at, made) in arrived.into_iter().zip(made) {
        let slot = &mut slots.slots[at];
        slot.standing = match made {
            EventAtOnce::Applied => Standing::Settled(Fate::Applied(None)),
            EventAtOnce::Known => {
                known.push(at);
                Standing::Pending
            }
            EventAtOnce::Failed { permanent, reason } => {
                let result = HandlerResult::Failed { permanent, reason };
                Standing::Settled(fate_of(result, &slot.fresh.delivery.source, slot.key()))
            }
        };
    }
    let along = match known.as_slice() {
        [] => Vec::new(),
        known => read_back(store, &mut slots, known, beforehand.along, terms.windows).await,
    };
    let fates = deliveries
        .iter()
        .enumerate()
        .map(|(at, delivery)| match slot_of(&slots, delivery) {
            Some(Slot {
                standing: Standing::Settled(fate @ (Fate::Rejected { .. } | Fate::Failed { .. })),
                ..
            }) => AtOnceFate::Failed(fate.clone()),
            Some(slot @ Slot { standing: Standing::Settled(_) | Standing::Stored(_), .. }) => {
                AtOnceFate::Answered(answers::single(at, delivery, slot, terms.windows.answers))
            }
            _ => AtOnceFate::Unsettled,
        })
        .collect();
    Ok(Some(Settled { fates, along, began, took: began.elapsed() }))
}

/// Reads back what was there before. What does not count any more, or has gone, stays pending. Returns the rows
/// that were read along.
async fn read_back(
    store: &dyn Store,
    slots: &mut Slots<'_>,
    known: &[usize],
    along: &[Expected],
    windows: Windows,
) -> Vec<Option<StoredEvent>> {
    let of_slots = known.iter().map(|&at| slots.slots[at].key());
    let keys: Vec<&EventKey> = of_slots.chain(along.iter().map(|expected| &expected.key)).collect();
    let mut stored = match store.stored_at_once(&keys, windows).await {
        Ok(stored) => stored,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "known events go the usual way");
            return Vec::new();
        }
    };
    let along = stored.split_off(known.len().min(stored.len()));
    for (&at, row) in known.iter().zip(stored) {
        let slot = &mut slots.slots[at];
        if let Some(row) = row.filter(|row| counts(row, &slot.fresh.delivery.source, &Mode::Receive)) {
            slot.standing = Standing::Stored(row);
        }
    }
    along
}

/// Keeps what is to be kept of events that the handler failed on, and composes the answers. `None` for what
/// cannot be kept now, or has come in elsewhere meanwhile: the usual way finds out.
pub(super) async fn reject_at_once(
    store: &dyn Store,
    deliveries: &[&Delivery],
    fates: Vec<Fate>,
    terms: &Terms,
) -> Vec<Option<Composed>> {
    let mut slots = Slots::collect(deliveries, |_| true);
    let mut fates: Vec<Option<Fate>> = fates.into_iter().map(Some).collect();
    for slot in &mut slots.slots {
        // Copies of an event share the fate of the first.
        if let Some(fate) = fates[slot.owner].take() {
            slot.standing = Standing::Settled(fate);
        }
    }
    let rejected = slots.slots.iter().enumerate().filter_map(|(at, slot)| Some((at, rejection(slot)?)));
    let (places, rejections): (Vec<usize>, Vec<Rejection<'_>>) = rejected.unzip();
    let kept = match rejections.as_slice() {
        [] => Vec::new(),
        rejections => store.reject_at_once(rejections).await.unwrap_or_else(|error| {
            tracing::debug!(error = &error as &dyn std::error::Error, "rejected events go the usual way");
            vec![false; rejections.len()]
        }),
    };
    for (at, is_kept) in places.into_iter().zip(kept) {
        if !is_kept {
            slots.slots[at].standing = Standing::Pending;
        }
    }
    let answer = |(at, delivery): (usize, &&Delivery)| {
        let slot = slot_of(&slots, delivery).filter(|slot| matches!(slot.standing, Standing::Settled(_)))?;
        Some(answers::single(at, delivery, slot, terms.windows.answers))
    };
    deliveries.iter().enumerate().map(answer).collect()
}

/// What is kept of an event that the handler refused.
fn rejection<'a>(slot: &'a Slot<'_>) -> Option<Rejection<'a>> {
    let Standing::Settled(fate @ Fate::Rejected { cause, reason }) = &slot.standing else { return None };
    let (state, status, _) = fate.stored_as(slot.fresh.delivery.source.success_status)?;
    let letter = NewDeadLetter { id: clock::new_id(), fresh: slot.fresh, cause: *cause, reason };
    Some(Rejection { row: NewEvent { state, status, ..slot.row() }, letter })
}

/// The slot of a delivery of one event.
fn slot_of<'s, 'a>(slots: &'s Slots<'a>, delivery: &Delivery) -> Option<&'s Slot<'a>> {
    slots.of(&delivery.events.first()?.key)
}

/// Whether nothing about a delivery needs more than its event key and a handler.
fn is_plain(delivery: &Delivery, first: &Delivery, memory: Duration) -> bool {
    let [event] = delivery.events.as_slice() else { return false };
    !delivery.is_batch
        && delivery.guard.is_none()
        && (delivery.explicit_key.is_none() || key_is_event_id(delivery))
        && event.order.is_none()
        && event.occurred_at.is_none_or(|at| is_plainly_young(at, delivery.received_at, memory))
        && std::sync::Arc::ptr_eq(&delivery.source, &first.source)
}

/// The one statement that all these events run through, when there is no more to it.
fn only_handler<'a>(slots: &Slots<'a>) -> Option<&'a SqlHandler> {
    let first = slots.slots.first()?;
    if slots.slots.iter().any(|slot| slot.mask != first.mask) {
        return None;
    }
    let mut planned = first.fresh.delivery.source.planned(first.mask);
    match (planned.next().map(|binding| &binding.step), planned.next()) {
        (Some(Step::Sql(handler)), None) if !handler.returns_rows() => Some(handler),
        _ => None,
    }
}
