//! Answers of a moment ago, so that a quick repetition need not ask the database.
//!
//! An entry is made only of a row that has been committed, and lives for [`TRUSTED_FOR`] after the
//! database was last asked, never longer than the answer's own window. So this process cannot
//! replay what the database would not have replayed within that time: a row that an operator
//! removes elsewhere is missed for no longer. What is not here is looked up; nothing is decided by
//! absence. For a while longer an entry still tells that a delivery is a repetition: the row is looked up
//! before anybody tries to insert it, and what it says counts. Bounded in entries and in bytes.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::event::{Delivery, EventKey};
use crate::inbox::answers;
use crate::inbox::foresight::Expected;
use crate::inbox::outcome::Answer;
use crate::inbox::slots::key_is_event_id;
use crate::store::StoredEvent;

/// How long a row is taken for what it was. Senders that repeat at once, and relays that send
/// twice, come within it; an operator who has an event forgotten waits as long.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_secs(5);

/// How much longer an entry tells what to expect of the database.
const LINGERS: Duration = Duration::from_secs(30);

/// Parts with a lock of their own.
const SHARDS: usize = 16;

/// Most entries of a shard.
const SHARD_ENTRIES: usize = 4_096;

/// Most bytes of handlers' own answers in a shard. The standard ones are rendered again.
const SHARD_BYTES: usize = 1024 * 1024;

/// The largest answer that is kept: one alone must not push out all others.
const LARGEST_ANSWER: usize = SHARD_BYTES / 16;

/// The answers of a moment ago, by the hash of their event's key. Of two keys with the same hash the later
/// one is remembered.
pub(super) struct Recent {
    shards: [Mutex<Shard>; SHARDS],
    /// Where to look next for what lingers.
    next: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<u64, Entry, BuildHasherDefault<AsIs>>,
    /// In the order in which they came, which is nearly that in which they go.
    order: VecDeque<(u64, Instant)>,
    bytes: usize,
}

struct Entry {
    key: EventKey,
    row: StoredEvent,
    until: Instant,
}

/// What is known of a delivery's event.
pub(super) enum Recollection {
    /// The answer to a repetition.
    Answer(Answer),
    /// It is likely to be a repetition.
    Stale,
    Nothing,
}

impl Recent {
    pub fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), next: AtomicUsize::new(0) }
    }

    /// What is remembered of a delivery's event. Only of deliveries of one event whose idempotency key, if
    /// any, is the event id: the others have more to be looked up.
    pub fn recall(&self, hash: u64, delivery: &Delivery) -> Recollection {
        let [event] = delivery.events.as_slice() else { return Recollection::Nothing };
        if delivery.is_batch || (delivery.explicit_key.is_some() && !key_is_event_id(delivery)) {
            return Recollection::Nothing;
        }
        // Its body may be another one, and is to be remembered too.
        if delivery.guard.is_some() {
            return Recollection::Nothing;
        }
        match self.shard(hash).entries.get(&hash) {
            Some(entry) if entry.key != event.key => Recollection::Nothing,
            Some(entry) if Instant::now() < entry.until => {
                Recollection::Answer(answers::repeated(delivery, event, &entry.row))
            }
            Some(_) => Recollection::Stale,
            None => Recollection::Nothing,
        }
    }

    /// Remembers a row that was committed, or read, by a transaction that began at `asked`.
    pub fn remember(&self, hash: u64, key: &EventKey, row: StoredEvent, asked: Instant) {
        let until = asked + row.answer_left.min(TRUSTED_FOR);
        let bytes = size(&row);
        let now = Instant::now();
        if until <= now || bytes > LARGEST_ANSWER {
            return;
        }
        let entry = Entry { key: key.clone(), row, until };
        let mut shard = self.shard(hash);
        shard.make_room(bytes, now);
        shard.bytes += bytes;
        shard.order.push_back((hash, until));
        if let Some(former) = shard.entries.insert(hash, entry) {
            shard.bytes -= size(&former.row);
        }
    }

    /// Takes of those that linger, a shard after the other, of each the oldest first.
    pub fn take_lingering(&self, most: usize, now: Instant) -> Vec<Expected> {
        let mut taken = Vec::new();
        if most == 0 {
            return taken;
        }
        // Not always from the same shard.
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for place in 0..SHARDS {
            let mut shard =
                self.shards[(first + place) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
            shard.take_lingering(most, now, &mut taken);
            if taken.len() >= most {
                break;
            }
        }
        taken
    }

    /// The event is new again.
    pub fn forget(&self, hash: u64, key: &EventKey) {
        let mut shard = self.shard(hash);
        if shard.entries.get(&hash).is_some_and(|entry| entry.key == *key)
            && let Some(entry) = shard.entries.remove(&hash)
        {
            shard.bytes -= size(&entry.row);
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The map takes the lower bits for its own places, and the highest to compare.
        let place = usize::try_from((hash >> 32) % SHARDS as u64).unwrap_or(0);
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Drops what has gone stale, and the oldest where that is not enough.
    fn make_room(&mut self, bytes: usize, now: Instant) {
        while let Some((_, until)) = self.order.front() {
            let is_full = self.order.len() >= SHARD_ENTRIES || self.bytes + bytes > SHARD_BYTES;
            if *until + LINGERS > now && !is_full {
                return;
            }
            self.drop_oldest();
        }
    }

    fn take_lingering(&mut self, most: usize, now: Instant, taken: &mut Vec<Expected>) {
        while taken.len() < most && self.order.front().is_some_and(|(_, until)| *until <= now) {
            if let Some((hash, entry)) = self.drop_oldest() {
                taken.push(Expected { hash, key: entry.key });
            }
        }
    }

    fn drop_oldest(&mut self) -> Option<(u64, Entry)> {
        let (hash, until) = self.order.pop_front()?;
        // A newer entry of the same key has its own place in the order.
        self.entries.get(&hash).filter(|entry| entry.until == until)?;
        let entry = self.entries.remove(&hash)?;
        self.bytes -= size(&entry.row);
        Some((hash, entry))
    }
}

/// The hash of something that is one.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole hashes are hashed");
    }
}

/// What an entry holds beyond its own size.
fn size(row: &StoredEvent) -> usize {
    row.reply.as_ref().map_or(0, |reply| {
        reply.body.len() + reply.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::inbox::outcome::EventState;
    use crate::reply::Reply;
    use crate::store::Age;

    fn key(number: usize) -> EventKey {
        EventKey { consumer: "shop".into(), event_id: format!("evt_{number}").into() }
    }

    fn row(body: usize, answer_left: Duration) -> StoredEvent {
        let reply = Reply { status: 200, headers: Vec::new(), body: Bytes::from(vec![b'x'; body]) };
        StoredEvent {
            source: "shop".into(),
            state: EventState::Applied,
            status: 200,
            reply: Some(reply),
            fingerprint: None,
            age: Age::AnswerLive,
            answer_left,
        }
    }

    /// In as many shards as there are.
    fn hash(number: usize) -> u64 {
        number as u64 * (u64::MAX / 1_000_003)
    }

    fn remember(recent: &Recent, number: usize, row: StoredEvent, asked: Instant) {
        recent.remember(hash(number), &key(number), row, asked);
    }

    fn until(recent: &Recent, number: usize) -> Option<Instant> {
        recent.shard(hash(number)).entries.get(&hash(number)).map(|entry| entry.until)
    }

    #[test]
    fn a_row_is_trusted_no_longer_than_its_answer_and_never_longer_than_trust() {
        let (recent, asked) = (Recent::new(), Instant::now());
        remember(&recent, 1, row(1, Duration::from_secs(1)), asked);
        remember(&recent, 2, row(1, Duration::from_secs(86_400)), asked);
        assert_eq!(until(&recent, 1), Some(asked + Duration::from_secs(1)));
        assert_eq!(until(&recent, 2), Some(asked + TRUSTED_FOR));
        // Its transaction took longer than that.
        let long_ago = asked.checked_sub(TRUSTED_FOR).expect("the machine runs for longer");
        remember(&recent, 3, row(1, Duration::from_secs(86_400)), long_ago);
        assert_eq!(until(&recent, 3), None);
    }

    #[test]
    fn what_is_not_trusted_any_more_lingers_and_then_goes() {
        let (recent, long) = (Recent::new(), Duration::from_secs(86_400));
        let now = Instant::now() + Duration::from_secs(3_600);
        let kept = |at: Instant| {
            let mut shard = recent.shard(hash(1));
            shard.make_room(0, at);
            shard.entries.len()
        };
        remember(&recent, 1, row(1, long), now);
        assert_eq!(kept(now + TRUSTED_FOR + LINGERS - Duration::from_millis(1)), 1);
        assert_eq!(kept(now + TRUSTED_FOR + LINGERS), 0);
    }

    #[test]
    fn what_lingers_is_taken_once() {
        let (recent, asked) = (Recent::new(), Instant::now());
        for number in 0..100 {
            remember(&recent, number, row(1, Duration::from_secs(86_400)), asked);
        }
        assert_eq!(recent.take_lingering(10, asked).len(), 0, "all are trusted yet");
        let later = asked + TRUSTED_FOR;
        assert_eq!(recent.take_lingering(0, later).len(), 0);
        let mut taken: Vec<EventKey> = Vec::new();
        for most in [1, 30, 64, 64] {
            let some = recent.take_lingering(most, later);
            assert!(some.len() <= most);
            taken.extend(some.into_iter().map(|expected| expected.key));
        }
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 100);
        assert!(recent.shards.iter().all(|shard| shard.lock().expect("not poisoned").bytes == 0));
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        const KEYS: usize = SHARDS * SHARD_ENTRIES * 2;
        let (recent, asked) = (Recent::new(), Instant::now());
        let long = Duration::from_secs(86_400);
        remember(&recent, 0, row(LARGEST_ANSWER + 1, long), asked);
        assert_eq!(until(&recent, 0), None);
        for number in 0..KEYS {
            remember(&recent, number, row(100, long), asked);
        }
        for shard in &recent.shards {
            let shard = shard.lock().expect("not poisoned");
            assert!(shard.order.len() <= SHARD_ENTRIES && shard.bytes <= SHARD_BYTES);
            assert_eq!(shard.bytes, shard.entries.len() * 100);
        }
        for number in 0..KEYS {
            recent.forget(hash(number), &key(number));
        }
        assert!(recent.shards.iter().all(|shard| shard.lock().expect("not poisoned").bytes == 0));
    }
}
