//! What one lane has claimed: asks for more in time, keeps the leases, gives back what is not sent.
//!
//! A lane keeps about as many messages claimed as may be on their way, so that nobody waits for the
//! database between two deliveries; from a fast destination's full outbox more, so that a claim lasts
//! for a while. What the lease does not cover any more is not given out. Knows nothing of destinations
//! but their name.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock;
use crate::store::outbox::{ClaimRequest, Claimed, Lease, Message};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics::Metrics;

/// Of the messages held, at most this part may be retries while others were never tried: slow
/// failures leave room for first attempts.
const RETRY_QUARTERS: usize = 3;
/// What is kept behind should last this long at the pace at which it leaves, but not be less than may be on
/// its way: a slow destination's messages stay free for other relays.
const STOCK_LASTS: Duration = Duration::from_millis(50);
/// Where more are kept behind than may be on their way, not more messages than this …
const MOST_BEHIND: usize = 512;
/// … nor more bytes.
const MOST_BYTES_BEHIND: usize = 8 * 1024 * 1024;

/// The messages of one destination that this process holds and has not sent.
pub(super) struct Claims {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    destination: Arc<str>,
    concurrency: usize,
    lease: Duration,
    waiting: VecDeque<Held>,
    /// What was held too long to be sent, and is not given back yet.
    too_late: Vec<Lease>,
    /// How many are kept behind.
    behind: usize,
    /// What has left since then, and its bytes.
    paced_since: Instant,
    left: usize,
    left_bytes: usize,
}

/// A message whose lease this lane holds.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) message: Message,
    token: uuid::Uuid,
    pub(super) claimed_at: Instant,
    /// By our own clock, which never stands still while the process does: after this somebody else
    /// may have the message.
    until: Instant,
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        Lease { id: self.message.id, token: self.token }
    }

    pub(super) fn is_retry(&self) -> bool {
        self.message.attempts > 1
    }
}

/// What a claim brought, and under which token.
pub(super) struct Claim {
    token: uuid::Uuid,
    at: Instant,
    /// There may be more.
    pub(super) full: bool,
    claimed: Claimed,
}

impl Claims {
    pub(super) fn new(
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        destination: Arc<str>,
        concurrency: usize,
        lease: Duration,
    ) -> Self {
        Self {
            store,
            metrics,
            destination,
            concurrency,
            lease,
            waiting: VecDeque::new(),
            too_late: Vec::new(),
            behind: concurrency,
            paced_since: Instant::now(),
            left: 0,
            left_bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many more messages to claim, while `out` are with the destination.
    pub(super) fn room(&self, out: usize) -> usize {
        // Not for every message: half of what is kept behind must be gone.
        if self.waiting.len() * 2 > self.behind {
            return 0;
        }
        self.most_held().saturating_sub(self.waiting.len() + out)
    }

    /// On their way and behind.
    fn most_held(&self) -> usize {
        self.behind + self.concurrency
    }

    /// A claim for `room` messages, to be awaited anywhere. `flying`: retries that are on their way.
    pub(super) fn claim(
        &self,
        room: usize,
        flying: usize,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send + use<> {
        let retries = self.waiting.iter().filter(|held| held.is_retry()).count() + flying;
        let most_retries = (self.most_held() * RETRY_QUARTERS).div_ceil(4).saturating_sub(retries);
        // A quarter at a time, so that a claim stays within its room, nearly.
        let most_retries = most_retries.min(room.div_ceil(4));
        let (store, lease, destination) = (self.store.clone(), self.lease, self.destination.clone());
        async move {
            let token = clock::new_id();
            let at = Instant::now();
            let request =
                ClaimRequest { destination: &destination, most_new: room, most_retries, token, lease };
            let mut claimed = store.claim_messages(&request).await?;
            // New ones first: retries take what is left.
            claimed.messages.sort_by_key(|message| message.attempts > 1);
            let full = claimed.messages.len() + claimed.parked >= most_retries.max(1);
            Ok(Claim { token, at, full, claimed })
        }
    }

    /// Takes in what a claim brought; returns how many messages that is.
    pub(super) fn take(&mut self, claim: Claim) -> usize {
        self.adapt(Instant::now());
        let Claim { token, at, claimed, .. } = claim;
        self.metrics.outbox.leases_expired(&self.destination, claimed.expired);
        let until = at + self.lease;
        let brought = claimed.messages.len();
        let held = |message| Held { message, token, claimed_at: at, until };
        self.waiting.extend(claimed.messages.into_iter().map(held));
        brought
    }

    /// Keeps as many behind as leave in a while.
    fn adapt(&mut self, now: Instant) {
        let took = now.saturating_duration_since(self.paced_since);
        if took < STOCK_LASTS {
            return;
        }
        let stocks = usize::try_from(took.as_micros() / STOCK_LASTS.as_micros()).unwrap_or(usize::MAX);
        let size = (self.left_bytes / self.left.max(1)).max(1);
        let most = MOST_BEHIND.min(MOST_BYTES_BEHIND / size);
        self.behind = (self.left / stocks.max(1)).min(most).max(self.concurrency);
        (self.paced_since, self.left, self.left_bytes) = (now, 0, 0);
    }

    /// The next message to send.
    pub(super) fn next(&mut self, now: Instant) -> Option<Held> {
        loop {
            let held = self.waiting.pop_front()?;
            if held.until > now {
                self.left += 1;
                self.left_bytes += held.message.payload.len();
                return Some(held);
            }
            // The process stood still, or the claim took as long: somebody else may be sending it.
            self.too_late.push(held.lease());
        }
    }

    /// Lengthens the leases of all that is held, and lets go of what is not held any more. What is
    /// `flying` is finished in any case: its settlement finds out.
    pub(super) async fn lengthen<'h>(&mut self, flying: impl Iterator<Item = &'h mut Held>) {
        let mut flying: Vec<_> = flying.collect();
        let held: Vec<Lease> =
            self.waiting.iter().chain(flying.iter().map(|held| &**held)).map(Held::lease).collect();
        if held.is_empty() {
            return;
        }
        let until = Instant::now() + self.lease;
        match self.store.extend_leases(&held, self.lease).await {
            Ok(ids) => {
                let ids: HashSet<_> = ids.into_iter().collect();
                self.waiting.retain(|held| ids.contains(&held.message.id));
                for held in self.waiting.iter_mut().chain(flying.drain(..)) {
                    held.until = until;
                }
            }
            Err(error) => tracing::warn!(
                destination = &*self.destination,
                error = &error as &dyn std::error::Error,
                "leases could not be lengthened"
            ),
        }
    }

    /// Gives back what was claimed and not tried.
    pub(super) async fn give_back(&mut self) {
        self.too_late.extend(self.waiting.drain(..).map(|held| held.lease()));
        self.give_back_too_late().await;
    }

    /// Gives back what was held too long, so that it does not count as tried. What is somebody else's by
    /// now stays theirs.
    pub(super) async fn give_back_too_late(&mut self) {
        let held = std::mem::take(&mut self.too_late);
        if held.is_empty() {
            return;
        }
        if let Err(error) = self.store.release_messages(&held).await {
            tracing::warn!(
                destination = &*self.destination,
                error = &error as &dyn std::error::Error,
                "claimed messages could not be given back; they come back when their lease ends"
            );
        }
    }
}
