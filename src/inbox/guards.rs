//! The bodies of a batch, for sources that guard against replays: a body takes effect under one id.
//!
//! Where the sender does not sign the id, whoever captured a delivery can send it again under
//! another one. So the digest of the body is remembered like an event: as a row in a scope of its
//! own, inserted in the same transaction, for as long, with the ids it came under. A row stays only
//! if one of those events took effect; a genuine retry of one that failed is not in its way.
//!
//! Rows are inserted in sorted order, behind the idempotency keys and before the event keys, so that
//! two replicas cannot deadlock. A batch without such a source does nothing here.

use std::collections::{BTreeMap, HashMap};

use crate::event::{Delivery, Event, EventKey, Fingerprint, JsonText};
use crate::inbox::apply::{MAX_CLAIM_ROUNDS, Mode, NotCommitted, contention};
use crate::inbox::outcome::EventState;
use crate::inbox::slots::Slots;
use crate::store::{Age, Batch, NewEvent, Windows};

/// Why a delivery does not take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// An earlier transaction saw its body under other ids.
    Seen,
    /// Another delivery of this batch brought the same body under other ids first.
    Behind(usize),
}

/// The guards of a batch.
#[derive(Default)]
pub(super) struct Guards<'a> {
    bars: HashMap<usize, Bar>,
    /// The rows this transaction inserted, with the delivery that owns each.
    owned: Vec<(&'a EventKey, usize)>,
}

/// The deliveries of a batch that bring one body, in order of arrival, each with its ids.
type Bringers<'a> = BTreeMap<&'a EventKey, Vec<(usize, Fingerprint)>>;

impl<'a> Guards<'a> {
    /// Takes the guards of those deliveries that `is_open` says are not settled yet.
    pub async fn make(
        batch: &mut dyn Batch,
        deliveries: &[&'a Delivery],
        is_open: impl Fn(usize) -> bool,
        windows: Windows,
    ) -> Result<Self, NotCommitted> {
        let mut open = Bringers::new();
        for (at, delivery) in deliveries.iter().copied().enumerate() {
            if let Some(guard) = &delivery.guard
                && is_open(at)
            {
                open.entry(&guard.key).or_default().push((at, guard.ids));
            }
        }
        let mut this = Self::default();
        for _ in 0..MAX_CLAIM_ROUNDS {
            if open.is_empty() {
                return Ok(this);
            }
            this.insert(batch, deliveries, &mut open).await?;
            if !open.is_empty() {
                this.read_back(batch, &mut open, windows).await?;
            }
        }
        if open.is_empty() {
            return Ok(this);
        }
        Err(contention("remember bodies", "rows kept vanishing between insert and read"))
    }

    /// Inserts the open guards; those that were new are owned by the first delivery that brings them.
    async fn insert(
        &mut self,
        batch: &mut dyn Batch,
        deliveries: &[&'a Delivery],
        open: &mut Bringers<'a>,
    ) -> Result<(), NotCommitted> {
        let rows: Vec<(&'a EventKey, Event)> = open.keys().map(|key| (*key, row_of(key))).collect();
        let new: Vec<NewEvent<'_>> = rows
            .iter()
            .filter_map(|(key, event)| {
                let &(owner, ids) = open.get(key)?.first()?;
                let source = &deliveries[owner].source;
                Some(NewEvent {
                    event,
                    source: &source.name,
                    state: EventState::Applied,
                    status: source.success_status,
                    fingerprint: Some(ids),
                })
            })
            .collect();
        let inserted = batch.insert_events(&new).await?;
        for ((key, _), _) in rows.iter().zip(inserted).filter(|(_, fresh)| *fresh) {
            let bringers = open.remove(key).unwrap_or_default();
            let Some((&(owner, ids), others)) = bringers.split_first() else { continue };
            self.owned.push((*key, owner));
            let strangers = others.iter().filter(|(_, theirs)| *theirs != ids);
            self.bars.extend(strangers.map(|&(at, _)| (at, Bar::Behind(owner))));
        }
        Ok(())
    }

    /// Bars the deliveries whose body was seen under other ids; makes room where a row expired.
    async fn read_back(
        &mut self,
        batch: &mut dyn Batch,
        open: &mut Bringers<'a>,
        windows: Windows,
    ) -> Result<(), NotCommitted> {
        let keys: Vec<&EventKey> = open.keys().copied().collect();
        let stored = batch.stored_events(&keys, windows).await?;
        let mut expired = Vec::new();
        for (key, row) in keys.into_iter().zip(stored) {
            match row {
                Some(row) if row.age == Age::Expired => expired.push(key),
                Some(row) => {
                    let bringers = open.remove(key).unwrap_or_default();
                    let strangers = bringers.iter().filter(|(_, ids)| row.fingerprint != Some(*ids));
                    self.bars.extend(strangers.map(|&(at, _)| (at, Bar::Seen)));
                }
                None => {}
            }
        }
        if !expired.is_empty() {
            batch.remove_events(&expired, windows).await?;
        }
        Ok(())
    }

    /// Why the delivery does not take part, if it does not.
    pub fn bar(&self, at: usize) -> Option<Bar> {
        self.bars.get(&at).copied()
    }

    /// Forgets the bodies of deliveries none of whose events took effect, and the dead letters of
    /// events that need not be tried again since their body has taken effect.
    pub async fn settle(
        &self,
        batch: &mut dyn Batch,
        deliveries: &[&Delivery],
        slots: &Slots<'_>,
        mode: &Mode,
    ) -> Result<(), NotCommitted> {
        let forget: Vec<&EventKey> = self
            .owned
            .iter()
            .filter(|(_, owner)| !slots.took_effect(deliveries[*owner]))
            .map(|(key, _)| *key)
            .collect();
        if !forget.is_empty() {
            batch.forget_events(&forget).await?;
        }
        if matches!(mode, Mode::Retry) {
            let barred = self.bars.keys().flat_map(|at| &deliveries[*at].events);
            let exhume: Vec<&EventKey> = barred.map(|event| &event.key).collect();
            if !exhume.is_empty() {
                batch.exhume(&exhume).await?;
            }
        }
        Ok(())
    }
}

/// What stands for a body among the events.
fn row_of(key: &EventKey) -> Event {
    Event {
        key: key.clone(),
        event_type: "".into(),
        occurred_at: None,
        payload: JsonText::null(),
        data: JsonText::null(),
        order: None,
    }
}
