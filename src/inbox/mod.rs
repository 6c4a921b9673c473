//! The inbox: deliveries in, answers out, each event applied once.
//!
//! [`Inbox`] is the handle; it answers a quick repetition itself (`recent.rs`), and whoever handed a
//! delivery over waits for the answer (`pending.rs`). Behind it stand writers, each a small actor that turns
//! what waits into one transaction (`writer.rs`), the batch algorithm (`apply.rs`) with its short way
//! (`at_once.rs`), and the composition of answers (`answers.rs`). Knows neither HTTP nor SQL.

mod answers;
mod apply;
mod aside;
mod at_once;
mod claims;
mod executing;
mod foresight;
mod guards;
mod judgement;
pub mod outcome;
mod pending;
mod poison;
mod recent;
mod refuse;
mod retry;
mod slots;
mod writer;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::event::{Delivery, EventKey, ExplicitKey};
use crate::outbox::Hints;
use crate::store::{BatchLimits, Store, StoreError, Windows};
use crate::telemetry::metrics::Metrics;

use apply::Terms;
use executing::Executing;
use foresight::Foresight;
use outcome::Answer;
use recent::{Recent, Recollection};
use writer::{Job, Writer};

pub(crate) use pending::HandedOver;
use pending::Pending;
pub(crate) use recent::TRUSTED_FOR;
pub(crate) use refuse::UNREADABLE;
pub use retry::RetryError;
pub(crate) use writer::with_causes;

/// How the inbox works.
#[derive(Clone, Debug)]
pub struct InboxOptions {
    /// Transactions at a time.
    pub writers: usize,
    /// Most deliveries in one transaction.
    pub max_batch: usize,
    /// Most deliveries that wait for one writer.
    pub queue: usize,
    /// How long a delivery waits for another one of the same key.
    pub inflight_wait: Duration,
    /// How long a delivery may take before it is answered 503.
    pub deadline: Duration,
    /// How long one statement, a handler's too, may run.
    pub handler_timeout: Duration,
    pub windows: Windows,
    /// Who is told of messages for other systems.
    pub hints: Hints,
}

/// The handle to the inbox. Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    clock: Clock,
    terms: Terms,
    options: InboxOptions,
    lanes: Vec<Lane>,
    stop: CancellationToken,
    crashed: CancellationToken,
    tasks: TaskTracker,
    metrics: Arc<Metrics>,
    recent: Arc<Recent>,
    hasher: RandomState,
}

/// The way to one writer.
struct Lane {
    queue: mpsc::Sender<Job>,
    executing: Arc<Executing>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Starts the writers on the current runtime.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, options: InboxOptions, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let terms = Terms {
            limits: BatchLimits { lock_wait: options.inflight_wait, statement: options.handler_timeout },
            windows: options.windows,
        };
        let recent = Arc::new(Recent::new());
        let stop = CancellationToken::new();
        let crashed = CancellationToken::new();
        let tasks = TaskTracker::new();
        let lanes = (0..options.writers.max(1))
            .map(|_| {
                let (queue, jobs) = mpsc::channel(options.queue.max(1));
                let executing = Arc::new(Executing::default());
                let writer = Writer::new(
                    store.clone(),
                    terms,
                    options.max_batch,
                    executing.clone(),
                    metrics.clone(),
                    options.hints.clone(),
                    Foresight::new(recent.clone()),
                );
                let alarm = Alarm::new(&stop, &crashed);
                let stop = stop.clone();
                tasks.spawn(async move {
                    let _alarm = alarm;
                    writer.run(jobs, stop).await;
                });
                Lane { queue, executing }
            })
            .collect();
        let hasher = RandomState::new();
        let shared =
            Shared { store, clock, terms, options, lanes, stop, crashed, tasks, metrics, recent, hasher };
        Self { shared: Arc::new(shared) }
    }

    /// Hands a delivery to its writer and waits for the answer. The delivery is processed whether
    /// or not the caller goes on waiting.
    pub async fn submit(&self, delivery: Delivery) -> Answer {
        match self.hand_over(delivery) {
            HandedOver::Answered(answer) => answer,
            HandedOver::Waits(mut pending) => pending.answer().await,
        }
    }

    /// Hands a delivery to its writer, if its answer is not known already.
    #[must_use]
    pub(crate) fn hand_over(&self, delivery: Delivery) -> HandedOver {
        let shared = &*self.shared;
        let marks = Marks::of(&delivery, &shared.hasher);
        let is_repetition = match shared.recent.recall(marks.event, &delivery) {
            Recollection::Answer(answer) => return HandedOver::Answered(answer),
            Recollection::Stale => true,
            Recollection::Nothing => false,
        };
        let id = delivery.id;
        let deadline = Instant::now() + shared.options.deadline;
        let lane = marks.lane(shared.lanes.len());
        let (answer, answered) = oneshot::channel();
        let job = Job { delivery, answer, deadline, marks, is_repetition };
        if let Err(refused) = shared.lanes[lane].queue.try_send(job) {
            return HandedOver::Answered(answers::unavailable(match refused {
                mpsc::error::TrySendError::Full(_) => "the queue is full",
                mpsc::error::TrySendError::Closed(_) => "shutting down",
            }));
        }
        shared.metrics.queue_depth(self.waiting());
        HandedOver::Waits(Pending { inbox: Arc::clone(&self.shared), answered, lane, marks, id, deadline })
    }

    /// Makes an event new again: its next delivery takes effect, at whichever process it arrives. False: it
    /// was not known.
    ///
    /// # Errors
    /// When the store fails; the event may be forgotten or not.
    pub async fn forget(&self, key: &EventKey) -> Result<bool, StoreError> {
        let forgotten = self.shared.store.forget_event(key).await;
        self.shared.recent.forget(self.shared.hasher.hash_one(key), key);
        if matches!(forgotten, Ok(true)) {
            // Other processes may have its answer in memory.
            tokio::time::sleep(TRUSTED_FOR).await;
        }
        forgotten
    }

    /// Deliveries that wait for a writer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lanes.iter().map(|lane| lane.queue.max_capacity() - lane.queue.capacity()).sum()
    }

    /// Ends when a writer has ended that nobody told to: its deliveries cannot be settled any more.
    pub async fn crashed(&self) {
        self.shared.crashed.cancelled().await;
    }

    /// Takes no more deliveries, settles those that wait, and returns when all are answered.
    pub async fn drain(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// What tells that two deliveries are about the same thing: hashes of the first event's key and of
/// the explicit idempotency key. A false match costs a 409 that the sender repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    event: u64,
    key: Option<u64>,
}

impl Marks {
    fn of(delivery: &Delivery, hasher: &RandomState) -> Self {
        let of_key = |explicit: &ExplicitKey| hasher.hash_one((&*delivery.source.name, &explicit.key));
        Self {
            event: delivery.events.first().map_or(0, |event| hasher.hash_one(&event.key)),
            key: delivery.explicit_key.as_ref().map(of_key),
        }
    }

    /// The same event always takes the same lane, so that it never meets itself in two writers.
    fn lane(self, lanes: usize) -> usize {
        usize::try_from(self.event % lanes as u64).unwrap_or(0)
    }

    fn touches(self, other: Self) -> bool {
        self.event == other.event || (self.key.is_some() && self.key == other.key)
    }
}
