//! The lane of one destination: claims, delivers, hands over what became of it.
//!
//! A lane keeps up to `concurrency` messages on their way and about as many claimed behind them, so
//! that nobody waits for the database between two deliveries. Lanes share nothing but the settler:
//! a destination that fails is in no other's way. No transaction is open while a message is on its
//! way; a heartbeat lengthens leases, and what a lane no longer holds it does not send.
//!
//! *At least once*: a process that dies after a delivery and before its note leaves a lease that ends,
//! and the message is delivered again under the same id.
//!
//! The loop is `Lane::run`; the step, for tests, is [`Lane::step`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff;
use super::breaker::{Breaker, Change};
use super::destination::{Answer, Destination, DestinationSpec, Meaning};
use super::pace::Pace;
use super::settler;
use super::verdict;
use crate::clock::{self, Clock};
use crate::store::outbox::{ClaimRequest, Claimed, DestinationState, Lease, Message, Settlement};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics::Metrics;

/// Heartbeats within one lease: two may be lost.
const BEATS: u32 = 3;
/// Of the messages on their way, at most this part may be retries while others were never tried:
/// slow failures leave room for first attempts.
const RETRY_QUARTERS: usize = 3;
/// The longest that one answer may hold back a destination's other messages.
const LONGEST_HOLD: Duration = Duration::from_secs(5 * 60);
/// How much of a reason is shown to others.
const REASON_CHARS: usize = 200;

/// How all lanes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// The longest a message waits for a lane that was told nothing.
    pub poll_every: Duration,
    pub lease: Duration,
    /// A message that has come through so many hooklatches goes in circles.
    pub max_hops: u16,
    /// How long a stop waits for messages on their way.
    pub drain: Duration,
}

/// What is known of destinations, as the relay last read it.
pub type States = Arc<HashMap<String, DestinationState>>;

/// What a lane works with.
#[derive(Clone)]
pub struct LaneParts {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub options: LaneOptions,
}

impl std::fmt::Debug for LaneParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneParts").field("options", &self.options).finish_non_exhaustive()
    }
}

/// One destination's messages on their way.
pub struct Lane {
    parts: LaneParts,
    spec: DestinationSpec,
    destination: Arc<dyn Destination>,
    /// Claimed and waiting.
    waiting: VecDeque<Held>,
    flying: JoinSet<Landed>,
    flights: HashMap<Id, Held>,
    /// What became of messages, not handed over yet.
    landed: VecDeque<Settlement>,
    breaker: Breaker,
    pace: Pace,
    /// The destination asked for rest until then.
    hold_until: Option<Instant>,
    failures_to_claim: u32,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("destination", &self.spec.name).finish_non_exhaustive()
    }
}

/// A message whose lease this lane holds.
#[derive(Clone)]
struct Held {
    message: Message,
    token: uuid::Uuid,
    claimed_at: Instant,
    /// By our own clock, which never stands still while the process does: after this somebody else
    /// may have the message.
    until: Instant,
}

impl Held {
    fn lease(&self) -> Lease {
        Lease { id: self.message.id, token: self.token }
    }
}

/// An attempt that has ended.
struct Landed {
    answer: Answer,
    latency: Duration,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stepped {
    pub claimed: usize,
    pub delivered: usize,
    /// Results that were noted: the lease was still held.
    pub settled: usize,
}

impl Lane {
    #[must_use]
    pub fn new(parts: LaneParts, spec: DestinationSpec, destination: Arc<dyn Destination>) -> Self {
        Self {
            breaker: Breaker::new(spec.policy.breaker),
            pace: Pace::new(spec.policy.rate_per_second),
            parts,
            spec,
            destination,
            waiting: VecDeque::new(),
            flying: JoinSet::new(),
            flights: HashMap::new(),
            landed: VecDeque::new(),
            hold_until: None,
            failures_to_claim: 0,
        }
    }

    /// Claims once, delivers all of it, notes what became of it.
    ///
    /// # Errors
    /// When the store fails. What was claimed comes back when its lease ends.
    pub async fn step(&mut self) -> Result<Stepped, StoreError> {
        let mut stepped = Stepped::default();
        let wanted = self.breaker.allows(self.spec.policy.concurrency, Instant::now());
        if wanted > 0 {
            let claimed = self.claim(wanted).await?;
            stepped.claimed = claimed.1.messages.len();
            self.take(claimed);
        }
        while !self.waiting.is_empty() || !self.flying.is_empty() {
            self.launch();
            let Some(landed) = self.flying.join_next_with_id().await else { break };
            self.land(landed).await;
            stepped.delivered += 1;
        }
        self.give_back().await;
        let landed: Vec<_> = self.landed.drain(..).collect();
        if !landed.is_empty() {
            stepped.settled = self.parts.store.settle_messages(&landed).await?.ids.len();
        }
        Ok(stepped)
    }

    /// Works until `stop`, then waits for what is on its way and gives back what is not.
    pub(super) async fn run(
        mut self,
        bell: Arc<Notify>,
        mut states: watch::Receiver<States>,
        results: mpsc::Sender<settler::Result>,
        stop: CancellationToken,
    ) {
        let mut claiming: Option<JoinHandle<Result<Claim, StoreError>>> = None;
        let mut next_claim = Instant::now();
        let mut beat = tokio::time::interval(self.parts.options.lease / BEATS);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = Instant::now();
            let state = states.borrow_and_update().get(&*self.spec.name).cloned();
            let gate = self.gate(state.as_ref(), now);
            match gate {
                Gate::Closed { .. } if !self.waiting.is_empty() => self.give_back().await,
                Gate::Closed { .. } => {}
                Gate::Open => self.launch(),
            }
            let room = self.room(now);
            if claiming.is_none() && gate == Gate::Open && room > 0 && now >= next_claim {
                claiming = Some(tokio::spawn(self.claim(room)));
            }
            let wake = self.wake(gate, next_claim, now);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                permit = results.reserve(), if !self.landed.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(settlement) = self.landed.pop_front() {
                            permit.send(settler::Result { settlement, destination: self.spec.name.clone() });
                        }
                    }
                    Err(_) => break,
                },
                Some(landed) = self.flying.join_next_with_id() => self.land(landed).await,
                claimed = joined(&mut claiming) => {
                    claiming = None;
                    next_claim = self.claimed(claimed);
                }
                _ = beat.tick() => self.beat().await,
                () = bell.notified() => next_claim = Instant::now(),
                changed = states.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.finish(claiming, results).await;
    }

    /// How many more messages can be claimed: as many behind as may be on their way.
    fn room(&self, now: Instant) -> usize {
        let concurrency = self.spec.policy.concurrency;
        let held = self.waiting.len() + self.flying.len() + self.landed.len();
        // Not for every message: half of what is kept behind must be gone.
        if self.waiting.len() * 2 > concurrency {
            return 0;
        }
        self.breaker.allows((2 * concurrency).saturating_sub(held), now)
    }

    fn gate(&self, state: Option<&DestinationState>, now: Instant) -> Gate {
        if state.is_some_and(|state| state.paused_at.is_some()) {
            return Gate::Closed { until: None };
        }
        // Another relay's breaker; ours knows itself.
        let others = state.filter(|_| self.breaker.opens_at().is_none()).map(|state| state.open_for);
        let others = others.filter(|open_for| !open_for.is_zero()).map(|open_for| now + open_for);
        let ours = self.breaker.opens_at();
        match [others, ours, self.hold_until].into_iter().flatten().filter(|until| *until > now).max() {
            Some(until) => Gate::Closed { until: Some(until) },
            None => Gate::Open,
        }
    }

    /// When to look again at the latest.
    fn wake(&self, gate: Gate, next_claim: Instant, now: Instant) -> Instant {
        let poll = now + self.parts.options.poll_every;
        match gate {
            Gate::Closed { until } => until.unwrap_or(poll).min(poll),
            Gate::Open => {
                let claim = if next_claim > now { next_claim } else { poll };
                let pace = (!self.waiting.is_empty()).then(|| self.pace.wait(now)).flatten();
                pace.map_or(claim, |pace| pace.min(claim)).min(poll)
            }
        }
    }

    /// A claim for `room` messages, to be awaited anywhere.
    fn claim(&self, room: usize) -> impl Future<Output = Result<Claim, StoreError>> + Send + 'static {
        let concurrency = self.spec.policy.concurrency;
        let retries = self.waiting.iter().chain(self.flights.values());
        let retries = retries.filter(|held| held.message.attempts > 1).count();
        let most_retries = (2 * concurrency * RETRY_QUARTERS).div_ceil(4).saturating_sub(retries);
        // A quarter at a time, so that a claim stays within its room, nearly.
        let most_retries = most_retries.min(room.div_ceil(4));
        let store = self.parts.store.clone();
        let lease = self.parts.options.lease;
        let name = self.spec.name.clone();
        async move {
            let token = clock::new_id();
            let at = Instant::now();
            let request = ClaimRequest { destination: &name, most_new: room, most_retries, token, lease };
            let mut claimed = store.claim_messages(&request).await?;
            // New ones first: retries take what is left.
            claimed.messages.sort_by_key(|message| message.attempts > 1);
            let full = claimed.messages.len() + claimed.parked >= most_retries.max(1);
            Ok(Claim(Origin { token, at, full }, claimed))
        }
    }

    fn take(&mut self, Claim(origin, claimed): Claim) {
        self.parts.metrics.outbox.leases_expired(&self.spec.name, claimed.expired);
        let until = origin.at + self.parts.options.lease;
        self.waiting.extend(claimed.messages.into_iter().map(|message| Held {
            message,
            token: origin.token,
            claimed_at: origin.at,
            until,
        }));
    }

    /// Takes what was claimed in; returns when to claim next.
    fn claimed(&mut self, claimed: Result<Result<Claim, StoreError>, tokio::task::JoinError>) -> Instant {
        let now = Instant::now();
        match claimed {
            Ok(Ok(claim)) => {
                if self.failures_to_claim > 0 {
                    tracing::info!(destination = &*self.spec.name, "messages can be claimed again");
                }
                self.failures_to_claim = 0;
                let full = claim.0.full;
                self.take(claim);
                if full { now } else { now + self.parts.options.poll_every }
            }
            failed => {
                self.failures_to_claim += 1;
                if self.failures_to_claim == 1 {
                    match failed {
                        Ok(Err(error)) => tracing::warn!(
                            destination = &*self.spec.name,
                            error = &error as &dyn std::error::Error,
                            "messages cannot be claimed; they wait"
                        ),
                        Err(error) => tracing::error!(%error, "a claim ended unexpectedly"),
                        Ok(Ok(_)) => {}
                    }
                }
                now + self.parts.options.poll_every
            }
        }
    }

    /// Sends what may be sent.
    fn launch(&mut self) {
        loop {
            let now = Instant::now();
            let free = self.spec.policy.concurrency.saturating_sub(self.flying.len() + self.landed.len());
            if free == 0 || self.breaker.allows(1, now) == 0 || self.pace.wait(now).is_some() {
                return;
            }
            let Some(held) = self.waiting.pop_front() else { return };
            if held.until <= now {
                // The process stood still: somebody else may be sending it.
                continue;
            }
            self.breaker.sent();
            self.pace.left(now);
            let attempt = attempt(
                self.destination.clone(),
                held.message.clone(),
                self.parts.options.max_hops,
                self.parts.clock.clone(),
            );
            let id = self.flying.spawn(attempt).id();
            self.flights.insert(id, held);
        }
    }

    /// Decides what follows from an attempt, for the message and for its destination.
    async fn land(&mut self, landed: Result<(Id, Landed), tokio::task::JoinError>) {
        let id = match &landed {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(held) = self.flights.remove(&id) else { return };
        let landed = match landed {
            Ok((_, landed)) => landed,
            Err(error) => {
                // Its lease ends by itself.
                tracing::error!(%error, message.id = %held.message.id, "a delivery ended unexpectedly");
                return self.breaker.unknown();
            }
        };
        let Landed { answer, latency } = landed;
        let took = held.claimed_at.elapsed();
        let fraction = backoff::fraction(clock::new_id());
        let fate = verdict::fate(&self.spec.policy, &held.message, answer.meaning, took, fraction);
        self.parts.metrics.outbox.attempt(&self.spec.name, answer.meaning, latency, held.message.age + took);
        self.tell(&answer, &held.message);
        self.landed.push_back(Settlement {
            lease: held.lease(),
            fate,
            status: answer.status,
            error: answer.error.clone(),
            answer: answer.body.clone(),
            answer_bytes: answer.body_bytes,
            latency,
        });
        self.judge_destination(&answer).await;
    }

    fn tell(&self, answer: &Answer, message: &Message) {
        if let Some(error) = &answer.error {
            tracing::debug!(
                destination = &*self.spec.name,
                message.id = %message.id,
                attempt = message.attempts,
                result = answer.meaning.as_str(),
                error,
                "a message was not delivered"
            );
        }
    }

    async fn judge_destination(&mut self, answer: &Answer) {
        let now = Instant::now();
        let name = self.spec.name.clone();
        let reason: String = answer.error.iter().flat_map(|error| error.chars()).take(REASON_CHARS).collect();
        let change = match answer.meaning {
            // It answers, whatever it says of this message. No answer: our own refusal.
            Meaning::Accepted => self.breaker.succeeded(),
            Meaning::Refused if answer.status.is_some() => self.breaker.succeeded(),
            Meaning::Refused => {
                self.breaker.unknown();
                Change::None
            }
            Meaning::Gone => {
                self.breaker.unknown();
                // Kept back at once; the state that all relays read follows.
                self.hold_until = Some(now + 2 * self.parts.options.poll_every);
                tracing::warn!(destination = &*name, "paused: {reason}");
                self.note(self.parts.store.pause_destination(&name, &reason).await);
                Change::None
            }
            Meaning::Throttled { retry_after } => {
                if let Some(wait) = retry_after {
                    self.hold_until = Some(now + wait.min(LONGEST_HOLD));
                }
                self.breaker.failed(now)
            }
            Meaning::Failed { .. } => self.breaker.failed(now),
        };
        match change {
            Change::None => {}
            Change::Opened(pause) => {
                tracing::warn!(
                    destination = &*name,
                    pause.seconds = pause.as_secs_f32(),
                    "left alone after failures: {reason}"
                );
                self.note(self.parts.store.open_breaker(&name, pause, &reason).await);
            }
            Change::Closed => {
                tracing::info!(destination = &*name, "works again");
                self.note(self.parts.store.close_breaker(&name).await);
            }
        }
    }

    /// What others would like to know, and can do without.
    fn note(&self, noted: Result<(), StoreError>) {
        if let Err(error) = noted {
            tracing::warn!(
                destination = &*self.spec.name,
                error = &error as &dyn std::error::Error,
                "the state of a destination could not be noted"
            );
        }
    }

    /// Lengthens the leases of all that is held, and lets go of what is not held any more.
    async fn beat(&mut self) {
        let held: Vec<Lease> = self.waiting.iter().chain(self.flights.values()).map(Held::lease).collect();
        if held.is_empty() {
            return;
        }
        let lease = self.parts.options.lease;
        let until = Instant::now() + lease;
        match self.parts.store.extend_leases(&held, lease).await {
            Ok(ids) => {
                let ids: std::collections::HashSet<_> = ids.into_iter().collect();
                self.waiting.retain(|held| ids.contains(&held.message.id));
                for held in self.waiting.iter_mut().chain(self.flights.values_mut()) {
                    held.until = until;
                }
            }
            Err(error) => tracing::warn!(
                destination = &*self.spec.name,
                error = &error as &dyn std::error::Error,
                "leases could not be lengthened"
            ),
        }
    }

    /// Gives back what was claimed and not tried.
    async fn give_back(&mut self) {
        let held: Vec<Lease> = self.waiting.drain(..).map(|held| held.lease()).collect();
        if held.is_empty() {
            return;
        }
        if let Err(error) = self.parts.store.release_messages(&held).await {
            tracing::warn!(
                destination = &*self.spec.name,
                error = &error as &dyn std::error::Error,
                "claimed messages could not be given back; they come back when their lease ends"
            );
        }
    }

    /// Gives back what waits and waits for what is on its way.
    async fn finish(
        &mut self,
        claiming: Option<JoinHandle<Result<Claim, StoreError>>>,
        results: mpsc::Sender<settler::Result>,
    ) {
        if let Some(claiming) = claiming
            && let Ok(Ok(claim)) = claiming.await
        {
            self.take(claim);
        }
        self.give_back().await;
        let deadline = Instant::now() + self.parts.options.drain;
        while let Ok(Some(landed)) = tokio::time::timeout_at(deadline, self.flying.join_next_with_id()).await
        {
            self.land(landed).await;
        }
        if !self.flying.is_empty() {
            tracing::warn!(
                destination = &*self.spec.name,
                messages = self.flying.len(),
                "messages were still on their way; they are delivered again when their lease ends"
            );
            self.flying.abort_all();
        }
        while let Some(settlement) = self.landed.pop_front() {
            let result = settler::Result { settlement, destination: self.spec.name.clone() };
            if results.send(result).await.is_err() {
                return;
            }
        }
    }
}

/// Whether messages may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// `None`: until somebody opens it.
    Closed {
        until: Option<Instant>,
    },
}

/// What a claim brought, and under which token.
struct Claim(Origin, Claimed);

struct Origin {
    token: uuid::Uuid,
    at: Instant,
    /// There may be more.
    full: bool,
}

/// One attempt.
async fn attempt(destination: Arc<dyn Destination>, message: Message, max_hops: u16, clock: Clock) -> Landed {
    let started = Instant::now();
    let answer = if message.hops >= max_hops {
        let reason = format!("it has come through {} hooklatches and goes in circles", message.hops);
        Answer::none(Meaning::Refused, reason)
    } else {
        destination.deliver(&message, clock.now()).await
    };
    Landed { answer, latency: started.elapsed() }
}

/// Waits for a task if there is one; else for ever.
async fn joined<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}
