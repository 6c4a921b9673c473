//! The lane of one destination: sends what it has claimed, and hands over what became of it.
//!
//! A lane keeps up to `concurrency` messages on their way and about as many claimed behind them
//! (`claims.rs`), as far as the destination lets them through (`gate.rs`).
//! Lanes share nothing but the settler: a destination that fails is in no other's way. No transaction
//! is open while a message is on its way; a heartbeat lengthens leases, and what a lane no longer
//! holds it does not send.
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
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::backoff;
use super::claims::{Claim, Claims, Held};
use super::destination::{Answer, Destination, DestinationSpec, Meaning};
use super::gate::{Gate, Notice, Said, Standing};
use super::settler;
use super::verdict;
use crate::clock::{self, Clock};
use crate::store::outbox::{Message, Settlement};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics::Metrics;

/// Heartbeats within one lease: two may be lost.
const BEATS: u32 = 3;
/// How much of a reason is shown to others.
const REASON_CHARS: usize = 200;
/// However seldom messages are looked for: who pauses or resumes a destination should not wait for that.
const HEAR_EVERY: Duration = Duration::from_secs(5);

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
pub(super) type States = Arc<Said>;

impl LaneOptions {
    /// How often to read what is said of destinations.
    pub(crate) fn hear_every(&self) -> Duration {
        self.poll_every.min(HEAR_EVERY)
    }
}

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
    claims: Claims,
    flying: JoinSet<Landed>,
    flights: HashMap<Id, Held>,
    /// What became of messages, not handed over yet.
    landed: VecDeque<Settlement>,
    gate: Gate,
    failures_to_claim: u32,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("destination", &self.spec.name).finish_non_exhaustive()
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
        let claims = Claims::new(
            parts.store.clone(),
            parts.metrics.clone(),
            spec.name.clone(),
            spec.policy.concurrency,
            parts.options.lease,
        );
        Self {
            gate: Gate::new(&spec.policy, parts.options.hear_every()),
            parts,
            spec,
            destination,
            claims,
            flying: JoinSet::new(),
            flights: HashMap::new(),
            landed: VecDeque::new(),
            failures_to_claim: 0,
        }
    }

    /// Claims once, delivers all of it, notes what became of it.
    ///
    /// # Errors
    /// When the store fails. What was claimed comes back when its lease ends.
    pub async fn step(&mut self) -> Result<Stepped, StoreError> {
        let mut stepped = Stepped::default();
        let wanted = self.gate.allows(self.spec.policy.concurrency, Instant::now());
        if wanted > 0 {
            let claim = self.claims.claim(wanted, self.retries()).await?;
            stepped.claimed = self.claims.take(claim);
        }
        while !self.claims.is_empty() || !self.flying.is_empty() {
            self.launch();
            let Some(landed) = self.flying.join_next_with_id().await else { break };
            self.land(landed).await;
            stepped.delivered += 1;
        }
        self.claims.give_back().await;
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
        let mut beat = heartbeat(self.parts.options.lease);
        // Until something has been read, the destination may be paused.
        tokio::select! {
            () = stop.cancelled() => return,
            first = states.changed() => if first.is_err() { return },
        }
        loop {
            let now = Instant::now();
            let said = states.borrow_and_update().clone();
            let standing = self.gate.hear(&self.spec.name, &said, now);
            match standing {
                Standing::Closed { .. } => self.claims.give_back().await,
                Standing::Open => {
                    self.launch();
                    self.claims.give_back_too_late().await;
                }
            }
            let room = self.gate.allows(self.claims.room(self.flying.len() + self.landed.len()), now);
            if claiming.is_none() && standing == Standing::Open && room > 0 && now >= next_claim {
                claiming = Some(tokio::spawn(self.claims.claim(room, self.retries())));
            }
            let wake = self.wake(standing, next_claim, now);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                permit = results.reserve(), if !self.landed.is_empty() => match permit {
                    Ok(permit) => self.hand_over(permit),
                    Err(_) => break,
                },
                Some(landed) = self.flying.join_next_with_id() => self.land(landed).await,
                claimed = joined(&mut claiming) => {
                    claiming = None;
                    next_claim = self.claimed(claimed);
                }
                _ = beat.tick() => self.claims.lengthen(self.flights.values_mut()).await,
                // A bell during a claim may be of a message that it does not see: the bell keeps.
                () = bell.notified(), if claiming.is_none() => next_claim = Instant::now(),
                changed = states.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.finish(claiming, results).await;
    }

    /// When to look again at the latest.
    fn wake(&self, standing: Standing, next_claim: Instant, now: Instant) -> Instant {
        let poll = now + self.parts.options.poll_every;
        match standing {
            Standing::Closed { until } => until.unwrap_or(poll).min(poll),
            Standing::Open => {
                let claim = if next_claim > now { next_claim } else { poll };
                let pace = (!self.claims.is_empty()).then(|| self.gate.next_at(now)).flatten();
                pace.map_or(claim, |pace| pace.min(claim)).min(poll)
            }
        }
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
                let full = claim.full;
                self.claims.take(claim);
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

    /// Retries that are on their way.
    fn retries(&self) -> usize {
        self.flights.values().filter(|held| held.is_retry()).count()
    }

    /// Sends what may be sent.
    fn launch(&mut self) {
        loop {
            let now = Instant::now();
            let free = self.spec.policy.concurrency.saturating_sub(self.flying.len() + self.landed.len());
            if free == 0 || !self.gate.lets_one_through(now) {
                return;
            }
            let Some(held) = self.claims.next(now) else { return };
            self.gate.left(now);
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
                return self.gate.unknown();
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
        let notice = self.gate.judge(answer, Instant::now());
        if notice == Notice::None {
            return;
        }
        let (name, store) = (self.spec.name.clone(), self.parts.store.clone());
        let reason: String = answer.error.iter().flat_map(|error| error.chars()).take(REASON_CHARS).collect();
        match notice {
            Notice::None => {}
            Notice::Gone => {
                tracing::warn!(destination = &*name, "paused: {reason}");
                let told = store.pause_destination(&name, &reason).await;
                if told.is_ok() {
                    self.gate.told_paused(Instant::now());
                }
                self.note(told);
            }
            Notice::LeftAlone(pause) => {
                tracing::warn!(
                    destination = &*name,
                    pause.seconds = pause.as_secs_f32(),
                    "left alone after failures: {reason}"
                );
                let told = store.open_breaker(&name, pause, &reason).await;
                if told.is_ok() {
                    self.gate.told_open(Instant::now());
                }
                self.note(told);
            }
            Notice::WorksAgain => {
                tracing::info!(destination = &*name, "works again");
                self.note(store.close_breaker(&name).await);
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

    /// Gives back what waits and waits for what is on its way.
    async fn finish(
        &mut self,
        claiming: Option<JoinHandle<Result<Claim, StoreError>>>,
        results: mpsc::Sender<settler::Result>,
    ) {
        if let Some(claiming) = claiming
            && let Ok(Ok(claim)) = claiming.await
        {
            self.claims.take(claim);
        }
        self.claims.give_back().await;
        let deadline = Instant::now() + self.parts.options.drain;
        let mut beat = heartbeat(self.parts.options.lease);
        loop {
            tokio::select! {
                biased;
                // At once: a process that stops may be killed before the slowest message has landed.
                permit = results.reserve(), if !self.landed.is_empty() => match permit {
                    Ok(permit) => self.hand_over(permit),
                    Err(_) => return,
                },
                Some(landed) = self.flying.join_next_with_id() => self.land(landed).await,
                () = tokio::time::sleep_until(deadline), if !self.flying.is_empty() => self.abandon(),
                _ = beat.tick(), if !self.flying.is_empty() => {
                    self.claims.lengthen(self.flights.values_mut()).await;
                }
                else => return,
            }
        }
    }

    /// Lets go of what is still on its way.
    fn abandon(&mut self) {
        tracing::warn!(
            destination = &*self.spec.name,
            messages = self.flying.len(),
            "messages were still on their way; they are delivered again when their lease ends"
        );
        self.flying = JoinSet::new();
        self.flights.clear();
    }

    /// Gives the oldest result away.
    fn hand_over(&mut self, permit: mpsc::Permit<'_, settler::Result>) {
        if let Some(settlement) = self.landed.pop_front() {
            permit.send(settler::Result { settlement, destination: self.spec.name.clone() });
        }
    }
}

/// Ticks as often as leases must be lengthened.
fn heartbeat(lease: Duration) -> Interval {
    let mut beat = tokio::time::interval(lease / BEATS);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
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
