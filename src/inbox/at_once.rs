//! The short way of a plain batch: one statement that inserts the keys, runs the handler and commits.
//!
//! Most batches are plain: single events of one source without order, guard or key of their own, all
//! run through one handler. A store that can serve them in one statement is spared a transaction's
//! other round trips. Events that the handler failed on, where that was expected, are not among what the
//! statement commits, and are kept as rejected by a second one. What is not settled by then (an event that was
//! there before, and everything when a handler failed that was trusted) goes the usual way (`apply.rs`).

use std::time::Duration;

use tokio::time::Instant;

use crate::clock;
use crate::event::Delivery;
use crate::handler::Step;
use crate::inbox::answers::{self, Composed};
use crate::inbox::apply::{Care, NotCommitted, Terms, fate_of, is_plainly_young};
use crate::inbox::slots::{Fate, Slots, Standing, key_is_event_id};
use crate::store::{
    AtOnce, EventAtOnce, FreshEvent, HandlerResult, NewDeadLetter, NewEvent, Rejection, SqlHandler, Store,
};

/// What the short way has settled.
pub(super) struct Settled {
    /// In the order of the deliveries; `None`: it goes the usual way.
    pub answers: Vec<Option<Composed>>,
    /// Events that the handler failed on.
    pub poisoned: usize,
    /// When the statement began.
    pub began: Instant,
    pub took: Duration,
}

/// Settles what one statement can. `None`: nothing, and nothing was done.
pub(super) async fn apply_at_once(
    store: &dyn Store,
    deliveries: &[&Delivery],
    terms: &Terms,
    care: Care,
) -> Result<Option<Settled>, NotCommitted> {
    let Some(first) = deliveries.first().filter(|_| store.can_apply_at_once()) else { return Ok(None) };
    let is_plain = |delivery: &&Delivery| is_plain(delivery, first, terms.windows.events);
    if !deliveries.iter().all(is_plain) {
        return Ok(None);
    }
    let mut slots = Slots::collect(deliveries, |_| true);
    let Some(handler) = only_handler(&slots) else { return Ok(None) };

    let began = Instant::now();
    let arrived = slots.pending_in_arrival_order();
    let fresh: Vec<FreshEvent<'_>> = arrived.iter().map(|&at| slots.slots[at].fresh).collect();
    let rows: Vec<NewEvent<'_>> = arrived.iter().map(|&at| slots.slots[at].row()).collect();
    let chunk = match care {
        Care::Trust => None,
        Care::Chunks(chunk) => Some(chunk),
    };
    let fates = match store.apply_at_once(&rows, &fresh, handler, chunk).await? {
        AtOnce::Committed(fates) => fates,
        AtOnce::HandlerFailed => return Err(NotCommitted::HandlerFailed),
        AtOnce::Unsupported => return Ok(None),
    };
    let mut failed = Vec::new();
    for (at, fate) in arrived.into_iter().zip(fates) {
        match fate {
            EventAtOnce::Applied => slots.slots[at].standing = Standing::Settled(Fate::Applied(None)),
            EventAtOnce::Known => {}
            EventAtOnce::Failed { permanent, reason } => {
                let slot = &slots.slots[at];
                let result = HandlerResult::Failed { permanent, reason };
                failed.push((at, fate_of(result, &slot.fresh.delivery.source, slot.key())));
            }
        }
    }
    let poisoned = failed.len();
    settle_failed(store, &mut slots, failed).await;
    let answers = deliveries
        .iter()
        .enumerate()
        .map(|(at, delivery)| {
            let slot = slots.of(&delivery.events.first()?.key)?;
            let is_settled = matches!(slot.standing, Standing::Settled(_));
            is_settled.then(|| answers::single(at, delivery, slot, terms.windows.answers))
        })
        .collect();
    Ok(Some(Settled { answers, poisoned, began, took: began.elapsed() }))
}

/// Keeps what is to be kept of events that the handler failed on. What cannot be kept now, or has come in
/// elsewhere meanwhile, stays pending: the usual way finds out.
async fn settle_failed(store: &dyn Store, slots: &mut Slots<'_>, failed: Vec<(usize, Fate)>) {
    let mut rejections = Vec::new();
    let mut rejected = Vec::new();
    for (at, fate) in &failed {
        let slot = &slots.slots[*at];
        if let Fate::Rejected { cause, reason } = fate
            && let Some((state, status, None)) = fate.stored_as(slot.fresh.delivery.source.success_status)
        {
            let row = NewEvent { state, status, ..slot.row() };
            let letter = NewDeadLetter { id: clock::new_id(), fresh: slot.fresh, cause: *cause, reason };
            rejections.push(Rejection { row, letter });
            rejected.push(*at);
        }
    }
    let mut lost = Vec::new();
    if !rejections.is_empty() {
        match store.reject_at_once(&rejections).await {
            Ok(kept) => {
                lost.extend(rejected.into_iter().zip(kept).filter_map(|(at, kept)| (!kept).then_some(at)))
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "rejected events go the usual way");
                lost = rejected;
            }
        }
    }
    for (at, fate) in failed {
        if !lost.contains(&at) {
            slots.slots[at].standing = Standing::Settled(fate);
        }
    }
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
