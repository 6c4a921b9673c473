//! The short way of a plain batch: one statement that inserts the keys, runs the handler and commits.
//!
//! Most batches are plain: single events of one source without order, guard or key of their own, all
//! run through one handler. A store that can serve them in one statement is spared a transaction's
//! other round trips. What the statement does not settle (an event that was there before, and
//! everything when the handler fails) goes the usual way afterwards (`apply.rs`).

use std::time::Duration;

use tokio::time::Instant;

use crate::event::Delivery;
use crate::handler::Step;
use crate::inbox::answers::{self, Composed};
use crate::inbox::apply::{NotCommitted, Terms, is_plainly_young};
use crate::inbox::slots::{Fate, Slots, Standing, key_is_event_id};
use crate::store::{AtOnce, FreshEvent, NewEvent, SqlHandler, Store};

/// What one statement has settled.
pub(super) struct Settled {
    /// In the order of the deliveries; `None`: it goes the usual way.
    pub answers: Vec<Option<Composed>>,
    /// When the statement began.
    pub began: Instant,
    pub took: Duration,
}

/// Settles what one statement can. `None`: nothing, and nothing was done.
pub(super) async fn apply_at_once(
    store: &dyn Store,
    deliveries: &[&Delivery],
    terms: &Terms,
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
    let inserted = match store.apply_at_once(&rows, &fresh, handler).await? {
        AtOnce::Applied(inserted) => inserted,
        AtOnce::HandlerFailed => return Err(NotCommitted::HandlerFailed),
        AtOnce::Unsupported => return Ok(None),
    };
    for (at, is_new) in arrived.into_iter().zip(inserted) {
        if is_new {
            slots.slots[at].standing = Standing::Settled(Fate::Applied(None));
        }
    }
    let answers = deliveries
        .iter()
        .enumerate()
        .map(|(at, delivery)| {
            let slot = slots.of(&delivery.events.first()?.key)?;
            let is_settled = matches!(slot.standing, Standing::Settled(_));
            is_settled.then(|| answers::single(at, delivery, slot, terms.windows.answers))
        })
        .collect();
    Ok(Some(Settled { answers, began, took: began.elapsed() }))
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
