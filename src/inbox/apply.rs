//! The batch algorithm: one transaction for many deliveries, each event applied once.
//!
//! Exists once, over the verbs of [`Batch`]; the dialects hold SQL and binds. In order: claim the
//! idempotency keys and the guarded bodies, insert the event keys, read the rest back, run the handlers over what is
//! fresh, write their messages into the outbox and what deviates from the expected, answer, commit.
//! Nothing is sent before the commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::clock;
use crate::event::{Delivery, EventKey};
use crate::handler::{HandlerBinding, Step};
use crate::inbox::answers::{self, Composed};
use crate::inbox::claims::Claims;
use crate::inbox::guards::Guards;
use crate::inbox::judgement::{count_poisoned, counts, fate_of, is_plainly_young};
use crate::inbox::outcome::EventState;
use crate::inbox::slots::{Fate, Slots, Standing};
use crate::outbox::forward::Outgoing;
use crate::source::{HandlerMask, Source};
use crate::store::{
    Batch, BatchLimits, DeathCause, EntityRef, FreshEvent, HandlerResult, NewDeadLetter, Revision, Store,
    StoreError, StoreErrorKind, Windows,
};

/// How often a key may turn out to be pruned or expired between insert and read before the batch
/// starts again. Each round needs another transaction to interfere.
pub(super) const MAX_CLAIM_ROUNDS: usize = 4;

/// Why this batch is applied.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    /// Deliveries from outside.
    Receive,
    /// An operator applies a dead letter again: earlier refusals and the event's age do not count.
    Retry,
    /// The transaction of this delivery cannot commit: its new events are rejected unseen.
    Refuse(String),
}

/// How much is staked on handlers that do not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// All of the batch: the first failure ends it, and it starts again with care.
    Trust,
    /// So many events share a subtransaction.
    Chunks(usize),
}

/// The terms every batch runs under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub limits: BatchLimits,
    pub windows: Windows,
}

/// A committed batch.
pub(super) struct Committed {
    /// In the order of the deliveries.
    pub answers: Vec<Composed>,
    /// When the transaction began: no row it read or wrote was there for certain any earlier.
    pub began: Instant,
    /// Events that a handler failed on.
    pub poisoned: usize,
    /// How long the transaction took, commit included.
    pub took: Duration,
    /// The destinations that messages were written for.
    pub forwarded: BTreeSet<Arc<str>>,
}

/// Why a batch was not committed.
pub(super) enum NotCommitted {
    Store(StoreError),
    /// A handler failed that was trusted.
    HandlerFailed,
    /// These deliveries carry several events of which one failed for now: without them the batch
    /// may succeed. Nothing of a delivery is kept unless all of it can be answered.
    Exclude(Vec<(usize, String)>),
}

impl From<StoreError> for NotCommitted {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Applies `deliveries` in one transaction.
pub(super) async fn apply(
    store: &dyn Store,
    deliveries: &[&Delivery],
    terms: &Terms,
    mode: &Mode,
    care: Care,
) -> Result<Committed, NotCommitted> {
    let started = Instant::now();
    let mut batch = store.begin(terms.limits).await?;
    let claims = Claims::make(&mut *batch, deliveries, terms.windows).await?;
    let guards = Guards::make(&mut *batch, deliveries, |at| claims.is_open(at), terms.windows).await?;
    let slots = Slots::collect(deliveries, |at| claims.is_open(at) && guards.bar(at).is_none());
    let mut run = Run { batch, slots, terms, mode, care, forwards: Vec::new(), forwarded: BTreeSet::new() };

    run.insert_or_read_back().await?;
    run.refuse_what_cannot_be_judged().await?;
    run.run_handlers_in_waves().await?;
    run.exclude_half_failed_batches()?;
    run.forward().await?;
    run.write_deviations().await?;

    let Run { mut batch, slots, forwarded, .. } = run;
    let poisoned = count_poisoned(&slots);
    let answers = answers::compose(deliveries, &claims, &guards, &slots, terms.windows.answers);
    guards.settle(&mut *batch, deliveries, &slots, mode).await?;
    claims.settle(&mut *batch, &answers).await?;
    batch.commit().await?;
    Ok(Committed { answers, began: started, poisoned, took: started.elapsed(), forwarded })
}

/// A batch on its way.
struct Run<'a> {
    batch: Box<dyn Batch>,
    slots: Slots<'a>,
    terms: &'a Terms,
    mode: &'a Mode,
    care: Care,
    /// Applied events that go on, in the order in which they were applied.
    forwards: Vec<usize>,
    forwarded: BTreeSet<Arc<str>>,
}

impl<'a> Run<'a> {
    /// Inserts the event keys; reads back those that were there. A row that does not count any
    /// more is removed and inserted anew; one that the pruner took in between is tried again.
    async fn insert_or_read_back(&mut self) -> Result<(), NotCommitted> {
        let mut open: Vec<usize> = (0..self.slots.slots.len()).collect();
        for _ in 0..MAX_CLAIM_ROUNDS {
            if open.is_empty() {
                return Ok(());
            }
            let rows: Vec<_> = open.iter().map(|&at| self.slots.slots[at].row()).collect();
            let inserted = self.batch.insert_events(&rows).await?;
            open = open.into_iter().zip(inserted).filter_map(|(at, fresh)| (!fresh).then_some(at)).collect();
            if open.is_empty() {
                return Ok(());
            }
            open = self.read_back(&open).await?;
        }
        if open.is_empty() {
            return Ok(());
        }
        Err(contention("insert event keys", "rows kept vanishing between insert and read"))
    }

    /// Returns the slots that are to be inserted again.
    async fn read_back(&mut self, open: &[usize]) -> Result<Vec<usize>, NotCommitted> {
        let keys: Vec<&EventKey> = open.iter().map(|&at| self.slots.slots[at].key()).collect();
        let stored = self.batch.stored_events(&keys, self.terms.windows).await?;
        let mut again = Vec::new();
        let mut remove = Vec::new();
        for (&at, row) in open.iter().zip(stored) {
            let slot = &mut self.slots.slots[at];
            match row {
                Some(row) if counts(&row, &slot.fresh.delivery.source, self.mode) => {
                    slot.standing = Standing::Stored(row);
                }
                Some(row) => {
                    slot.was_rejected = row.state == EventState::Rejected;
                    remove.push(slot.key());
                    again.push(at);
                }
                None => again.push(at),
            }
        }
        if !remove.is_empty() {
            self.batch.remove_events(&remove, self.terms.windows).await?;
        }
        Ok(again)
    }

    /// An event older than the memory of events cannot be told from one that was processed and
    /// forgotten; and a delivery whose commit fails for good is refused without running again.
    async fn refuse_what_cannot_be_judged(&mut self) -> Result<(), NotCommitted> {
        let refused = match self.mode {
            Mode::Retry => return Ok(()),
            Mode::Refuse(reason) => Some(reason.clone()),
            Mode::Receive => None,
        };
        let mut now: Option<DateTime<Utc>> = None;
        for at in self.slots.pending_in_arrival_order() {
            let slot = &mut self.slots.slots[at];
            if let Some(reason) = &refused {
                let rejected = Fate::Rejected { cause: DeathCause::Rejected, reason: reason.clone() };
                slot.standing = Standing::Settled(rejected);
                continue;
            }
            let Some(occurred_at) = slot.fresh.event.occurred_at else { continue };
            if is_plainly_young(occurred_at, slot.fresh.delivery.received_at, self.terms.windows.events) {
                continue;
            }
            let now = match now {
                Some(now) => now,
                None => *now.insert(self.batch.now().await?),
            };
            let age = (now - occurred_at).to_std().unwrap_or_default();
            if age > self.terms.windows.events {
                let reason = format!(
                    "the event is {} old, longer than retention.processed_events ({}): nobody can tell whether it was processed before",
                    humantime::format_duration(Duration::from_secs(age.as_secs())),
                    humantime::format_duration(self.terms.windows.events),
                );
                slot.standing = Standing::Settled(Fate::Rejected { cause: DeathCause::TooOld, reason });
            }
        }
        Ok(())
    }

    /// Runs the handlers over what is fresh. Two events of one entity are never in one statement:
    /// the second waits for the next wave, and sees what the first left.
    async fn run_handlers_in_waves(&mut self) -> Result<(), NotCommitted> {
        let mut waiting = self.slots.pending_in_arrival_order();
        waiting.retain(|&at| {
            let slot = &mut self.slots.slots[at];
            if slot.mask.is_empty() {
                slot.standing = Standing::Settled(Fate::Ignored);
            }
            !slot.mask.is_empty()
        });
        while !waiting.is_empty() {
            let (wave, rest) = self.split_wave(waiting);
            waiting = rest;
            let wave = self.drop_stale(wave).await?;
            for group in self.by_plan(&wave) {
                self.run_group(&group).await?;
            }
            self.advance(&wave).await?;
        }
        Ok(())
    }

    /// The first event of each entity, and all events without one; then the others.
    fn split_wave(&self, waiting: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut entities = std::collections::HashSet::new();
        waiting.into_iter().partition(|&at| self.entity(at).is_none_or(|(entity, _)| entities.insert(entity)))
    }

    /// The entity and sequence of an ordered event.
    fn entity(&self, at: usize) -> Option<(EntityRef<'a>, i64)> {
        let event = self.slots.slots[at].fresh.event;
        let order = event.order.as_ref()?;
        Some((EntityRef { consumer: &event.key.consumer, entity: &order.entity }, order.sequence))
    }

    /// Sorted by entity, so that replicas lock in one order.
    fn entities(&self, wave: &[usize]) -> Vec<(EntityRef<'a>, i64, usize)> {
        let mut entities: Vec<_> = wave
            .iter()
            .filter_map(|&at| self.entity(at).map(|(entity, sequence)| (entity, sequence, at)))
            .collect();
        entities.sort_unstable();
        entities
    }

    /// Settles events older than what their entity has seen; returns the others.
    async fn drop_stale(&mut self, wave: Vec<usize>) -> Result<Vec<usize>, NotCommitted> {
        let entities = self.entities(&wave);
        if entities.is_empty() {
            return Ok(wave);
        }
        let refs: Vec<_> = entities.iter().map(|&(entity, ..)| entity).collect();
        let seen = self.batch.entity_sequences(&refs).await?;
        for (&(_, sequence, at), seen) in entities.iter().zip(seen) {
            if seen.is_some_and(|seen| seen > sequence) {
                self.slots.slots[at].standing = Standing::Settled(Fate::Stale);
            }
        }
        Ok(wave
            .into_iter()
            .filter(|&at| matches!(self.slots.slots[at].standing, Standing::Pending))
            .collect())
    }

    /// Events that run through the same handlers of one source.
    fn by_plan(&self, wave: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: Vec<((*const Source, HandlerMask), Vec<usize>)> = Vec::new();
        for &at in wave {
            let slot = &self.slots.slots[at];
            let plan = (Arc::as_ptr(&slot.fresh.delivery.source), slot.mask);
            match groups.iter_mut().find(|(other, _)| *other == plan) {
                Some((_, group)) => group.push(at),
                None => groups.push((plan, vec![at])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    async fn run_group(&mut self, group: &[usize]) -> Result<(), NotCommitted> {
        let Some(&first) = group.first() else { return Ok(()) };
        let source = &self.slots.slots[first].fresh.delivery.source;
        let mask = self.slots.slots[first].mask;
        let events: Vec<FreshEvent<'a>> = group.iter().map(|&at| self.slots.slots[at].fresh).collect();
        let sends_on = |binding: &HandlerBinding| matches!(binding.step, Step::Forward(_));
        let results = match source.planned(mask).all(sends_on) {
            true => events.iter().map(|_| HandlerResult::Applied(None)).collect(),
            false => match self.care {
                Care::Trust => self
                    .batch
                    .try_handlers(source, mask, &events)
                    .await?
                    .ok_or(NotCommitted::HandlerFailed)?,
                Care::Chunks(chunk) => self.batch.run_handlers(source, mask, &events, chunk).await?,
            },
        };
        let goes_on = source.planned(mask).any(sends_on);
        for (&at, result) in group.iter().zip(results) {
            let slot = &mut self.slots.slots[at];
            slot.standing = Standing::Settled(fate_of(result, &slot.fresh.delivery.source, slot.key()));
            if goes_on && matches!(slot.standing, Standing::Settled(Fate::Applied(_))) {
                self.forwards.push(at);
            }
        }
        Ok(())
    }

    /// Writes the messages of the applied events that go on.
    async fn forward(&mut self) -> Result<(), NotCommitted> {
        let mut messages = Vec::new();
        for &at in &self.forwards {
            let slot = &self.slots.slots[at];
            for binding in slot.fresh.delivery.source.planned(slot.mask) {
                if let Step::Forward(forward) = &binding.step {
                    messages.push(forward.message(slot.fresh));
                    self.forwarded.insert(forward.destination.clone());
                }
            }
        }
        let messages: Vec<_> = messages.iter().map(Outgoing::as_new).collect();
        Ok(self.batch.enqueue(&messages).await?)
    }

    /// Notes what the entities of the applied events have now seen.
    async fn advance(&mut self, wave: &[usize]) -> Result<(), NotCommitted> {
        let applied: Vec<_> = self
            .entities(wave)
            .into_iter()
            .filter(|&(.., at)| matches!(self.slots.slots[at].standing, Standing::Settled(Fate::Applied(_))))
            .map(|(entity, sequence, _)| (entity, sequence))
            .collect();
        if applied.is_empty() || self.batch.advance_entities(&applied).await? {
            return Ok(());
        }
        Err(contention("advance entity versions", "another transaction has just seen something newer"))
    }

    /// A delivery of several events is answered as a whole: when one of them failed for now, the
    /// delivery is left out, so that nothing of it is stored and the sender comes again.
    fn exclude_half_failed_batches(&self) -> Result<(), NotCommitted> {
        let mut excluded: Vec<(usize, String)> = Vec::new();
        for slot in &self.slots.slots {
            if let Standing::Settled(Fate::Failed { reason }) = &slot.standing
                && slot.fresh.delivery.events.len() > 1
                && !excluded.iter().any(|(at, _)| *at == slot.owner)
            {
                excluded.push((slot.owner, reason.clone()));
            }
        }
        if excluded.is_empty() { Ok(()) } else { Err(NotCommitted::Exclude(excluded)) }
    }

    /// Writes what became other than the inserted rows say.
    async fn write_deviations(&mut self) -> Result<(), NotCommitted> {
        let mut forget = Vec::new();
        let mut revise = Vec::new();
        let mut bury = Vec::new();
        let mut exhume = Vec::new();
        for slot in &self.slots.slots {
            let fate = match &slot.standing {
                Standing::Settled(fate) => fate,
                Standing::Stored(row) => {
                    if matches!(self.mode, Mode::Retry) && row.state != EventState::Rejected {
                        exhume.push(slot.key());
                    }
                    continue;
                }
                Standing::Pending => continue,
            };
            let Some((state, status, reply)) = fate.stored_as(slot.fresh.delivery.source.success_status)
            else {
                forget.push(slot.key());
                continue;
            };
            if state != slot.row().state || reply.is_some() {
                revise.push(Revision { key: slot.key(), state, status, reply });
            }
            if let Fate::Rejected { cause, reason } = fate {
                bury.push(NewDeadLetter { id: clock::new_id(), fresh: slot.fresh, cause: *cause, reason });
            } else if slot.was_rejected || matches!(self.mode, Mode::Retry) {
                exhume.push(slot.key());
            }
        }
        if !forget.is_empty() {
            self.batch.forget_events(&forget).await?;
        }
        if !revise.is_empty() {
            self.batch.revise_events(&revise).await?;
        }
        if !bury.is_empty() {
            self.batch.bury(&bury).await?;
        }
        if !exhume.is_empty() {
            self.batch.exhume(&exhume).await?;
        }
        Ok(())
    }
}

pub(super) fn contention(doing: &'static str, why: &'static str) -> NotCommitted {
    NotCommitted::Store(StoreError::new(StoreErrorKind::Contention, doing, why))
}
