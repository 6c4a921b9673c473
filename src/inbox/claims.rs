//! The idempotency keys of a batch: claimed before any event is looked at.
//!
//! Only explicit keys that differ from the event id come here; the others share the event's row.
//! The first delivery to bring a key owns it, the others of the batch follow. Keys are inserted in
//! sorted order and before the event keys, so that two replicas cannot deadlock.

use std::collections::BTreeMap;

use crate::event::{Delivery, Fingerprint};
use crate::inbox::answers::Composed;
use crate::inbox::apply::{MAX_CLAIM_ROUNDS, NotCommitted, contention};
use crate::inbox::slots::key_is_event_id;
use crate::reply::Reply;
use crate::store::{Batch, KeyRef, NewKey, Windows};

/// What a delivery's idempotency key says about it.
pub(super) enum Claim {
    /// No key of its own, or a fresh one: its events decide.
    Open,
    /// The same request was answered before.
    Replay(Reply),
    /// The key was used for another request.
    Mismatch,
    /// Another delivery of this batch brought the same key and the same request first.
    Follow(usize),
}

/// The claims of a batch, in the order of its deliveries.
pub(super) struct Claims<'a> {
    claims: Vec<Claim>,
    /// The keys this transaction inserted, with the delivery that owns each.
    owned: Vec<(KeyRef<'a>, usize)>,
}

/// The deliveries of a batch that bring one key, in order of arrival.
type Bringers<'a> = BTreeMap<KeyRef<'a>, Vec<(usize, Fingerprint)>>;

impl<'a> Claims<'a> {
    /// Claims the keys of `deliveries`.
    pub async fn make(
        batch: &mut dyn Batch,
        deliveries: &[&'a Delivery],
        windows: Windows,
    ) -> Result<Self, NotCommitted> {
        let mut open = Bringers::new();
        for (at, delivery) in deliveries.iter().copied().enumerate() {
            if let Some((key, fingerprint)) = own_key(delivery) {
                open.entry(key).or_default().push((at, fingerprint));
            }
        }
        let mut this = Self { claims: deliveries.iter().map(|_| Claim::Open).collect(), owned: Vec::new() };
        for _ in 0..MAX_CLAIM_ROUNDS {
            if open.is_empty() {
                return Ok(this);
            }
            this.insert(batch, &mut open).await?;
            if !open.is_empty() {
                this.read_back(batch, &mut open, windows).await?;
            }
        }
        if open.is_empty() {
            return Ok(this);
        }
        Err(contention("claim idempotency keys", "rows kept vanishing between insert and read"))
    }

    /// Inserts the open keys; those that were new are owned by the first delivery that brings them.
    async fn insert(&mut self, batch: &mut dyn Batch, open: &mut Bringers<'a>) -> Result<(), NotCommitted> {
        let rows: Vec<NewKey<'a>> = open
            .iter()
            .filter_map(|(&key, bringers)| {
                bringers.first().map(|&(_, fingerprint)| NewKey { key, fingerprint })
            })
            .collect();
        let inserted = batch.insert_keys(&rows).await?;
        for (row, _) in rows.iter().zip(inserted).filter(|(_, fresh)| *fresh) {
            let bringers = open.remove(&row.key).unwrap_or_default();
            let Some((&(owner, first), followers)) = bringers.split_first() else { continue };
            self.owned.push((row.key, owner));
            for &(at, fingerprint) in followers {
                self.claims[at] = if fingerprint == first { Claim::Follow(owner) } else { Claim::Mismatch };
            }
        }
        Ok(())
    }

    /// Settles the deliveries whose key was stored before; makes room where a stored key expired.
    async fn read_back(
        &mut self,
        batch: &mut dyn Batch,
        open: &mut Bringers<'a>,
        windows: Windows,
    ) -> Result<(), NotCommitted> {
        let keys: Vec<KeyRef<'a>> = open.keys().copied().collect();
        let stored = batch.stored_keys(&keys, windows).await?;
        let mut expired = Vec::new();
        for (key, row) in keys.into_iter().zip(stored) {
            let Some(row) = row else { continue };
            if !row.live {
                expired.push(key);
                continue;
            }
            for (at, fingerprint) in open.remove(&key).unwrap_or_default() {
                self.claims[at] = if fingerprint == row.fingerprint {
                    Claim::Replay(row.reply.clone())
                } else {
                    Claim::Mismatch
                };
            }
        }
        if !expired.is_empty() {
            batch.remove_keys(&expired, windows).await?;
        }
        Ok(())
    }

    /// Whether the delivery's events decide what becomes of it.
    pub fn is_open(&self, at: usize) -> bool {
        matches!(self.claims[at], Claim::Open)
    }

    pub fn of(&self, at: usize) -> &Claim {
        &self.claims[at]
    }

    /// Stores the answers under the keys that were claimed; gives back those of deliveries that
    /// leave none.
    pub async fn settle(&self, batch: &mut dyn Batch, answers: &[Composed]) -> Result<(), NotCommitted> {
        let mut keep: Vec<(KeyRef<'_>, &Reply)> = Vec::new();
        let mut forget: Vec<KeyRef<'_>> = Vec::new();
        for &(key, owner) in &self.owned {
            let composed = &answers[owner];
            if composed.is_stored { keep.push((key, &composed.answer.reply)) } else { forget.push(key) }
        }
        if !keep.is_empty() {
            batch.settle_keys(&keep).await?;
        }
        if !forget.is_empty() {
            batch.forget_keys(&forget).await?;
        }
        Ok(())
    }
}

/// The explicit key of a delivery, when it needs a row of its own.
fn own_key(delivery: &Delivery) -> Option<(KeyRef<'_>, Fingerprint)> {
    let explicit = delivery.explicit_key.as_ref()?;
    if key_is_event_id(delivery) {
        return None;
    }
    Some((KeyRef { source: &delivery.source.name, key: &explicit.key }, explicit.fingerprint))
}
