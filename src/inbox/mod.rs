//! The inbox: deliveries in, answers out, each event applied once.
//!
//! [`Inbox`] is the handle; it answers a quick repetition itself (`recent.rs`). Behind it stand writers,
//! each a small actor that turns what waits into one transaction (`writer.rs`), the batch algorithm
//! (`apply.rs`) with its short way (`at_once.rs`), and the composition of answers (`answers.rs`). Knows
//! neither HTTP nor SQL.

mod answers;
mod apply;
mod aside;
mod at_once;
mod claims;
mod executing;
mod guards;
mod judgement;
pub mod outcome;
mod poison;
mod recent;
mod refuse;
mod retry;
mod slots;
mod writer;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::event::{Delivery, EventKey};
use crate::outbox::Hints;
use crate::store::{BatchLimits, Store, StoreError, Windows};
use crate::telemetry::metrics::Metrics;

use apply::Terms;
use executing::Executing;
use outcome::Answer;
use recent::{Recent, Recollection};
use writer::{Job, Writer};

pub(crate) use recent::TRUSTED_FOR;
pub(crate) use refuse::UNREADABLE;
pub use retry::RetryError;
pub(crate) use writer::with_causes;

/// How often a waiting delivery looks whether its key is being processed elsewhere, once
/// `inflight_wait` is over.
const CONFLICT_CHECK_EVERY: Duration = Duration::from_millis(250);

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
        let shared = Shared { store, clock, terms, options, lanes, stop, crashed, tasks, metrics, recent };
        Self { shared: Arc::new(shared) }
    }

    /// Hands a delivery to its writer and waits for the answer. The delivery is processed whether
    /// or not the caller goes on waiting.
    pub async fn submit(&self, delivery: Delivery) -> Answer {
        let shared = &*self.shared;
        let is_repetition = match shared.recent.recall(&delivery) {
            Recollection::Answer(answer) => return answer,
            Recollection::Stale => true,
            Recollection::Nothing => false,
        };
        let marks = Marks::of(&delivery);
        let id = delivery.id;
        let deadline = Instant::now() + shared.options.deadline;
        let lane = &shared.lanes[marks.lane(shared.lanes.len())];
        let (answer, mut answered) = oneshot::channel();
        match lane.queue.try_send(Job { delivery, answer, deadline, marks, is_repetition }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return answers::unavailable("the queue is full"),
            Err(mpsc::error::TrySendError::Closed(_)) => return answers::unavailable("shutting down"),
        }
        shared.metrics.queue_depth(self.waiting());

        let mut wait = shared.options.inflight_wait;
        loop {
            let until = (Instant::now() + wait).min(deadline);
            match tokio::time::timeout_at(until, &mut answered).await {
                Ok(Ok(settled)) => {
                    if let (Some((row, began)), [event]) =
                        (settled.remembered, settled.delivery.events.as_slice())
                    {
                        shared.recent.remember(event.key.clone(), row, began);
                    }
                    return settled.answer;
                }
                Ok(Err(_)) => {
                    return answers::unavailable("the writer stopped before the delivery was settled");
                }
                Err(_) if Instant::now() >= deadline => {
                    return answers::unavailable("the deadline passed before the delivery was settled");
                }
                Err(_) if lane.executing.holds_for_another(marks, id) => {
                    return answers::conflict("the same key was still being processed");
                }
                Err(_) => wait = CONFLICT_CHECK_EVERY,
            }
        }
    }

    /// Makes an event new again: its next delivery takes effect, at whichever process it arrives. False: it
    /// was not known.
    ///
    /// # Errors
    /// When the store fails; the event may be forgotten or not.
    pub async fn forget(&self, key: &EventKey) -> Result<bool, StoreError> {
        let forgotten = self.shared.store.forget_event(key).await;
        self.shared.recent.forget(key);
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
    fn of(delivery: &Delivery) -> Self {
        let hash = |value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            value(&mut hasher);
            hasher.finish()
        };
        Self {
            event: hash(&|h| delivery.events.first().map(|e| &e.key).hash(h)),
            key: delivery.explicit_key.as_ref().map(|k| hash(&|h| (&*delivery.source.name, &k.key).hash(h))),
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
