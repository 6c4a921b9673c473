//! A writer: takes what waits, makes one transaction of it, answers each delivery.
//!
//! Group commit without a timer: the first delivery opens a batch, everything that waits already
//! joins it, nothing is waited for. A batch that fails is tried again, then taken apart, so that
//! only the delivery that causes a failure suffers from it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::Delivery;
use crate::inbox::Marks;
use crate::inbox::answers::{self, Composed};
use crate::inbox::apply::{Care, Committed, Mode, NotCommitted, Terms, apply};
use crate::inbox::aside::Aside;
use crate::inbox::at_once::{self, AtOnceFate, Known, apply_at_once};
use crate::inbox::executing::Executing;
use crate::inbox::foresight::Foresight;
use crate::inbox::outcome::Answer;
use crate::inbox::poison::Poison;
use crate::outbox::Hints;
use crate::store::{Store, StoreError, StoreErrorKind, StoredEvent};
use crate::telemetry::metrics::Metrics;

/// How often a batch is tried again after a deadlock, a serialization failure or a lost connection.
const MAX_RETRIES: u32 = 3;

/// Pause before the first retry; doubled each time.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Most bytes of bodies in one transaction: bounds memory and the size of a statement.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// A delivery that waits, and the way back.
pub(super) struct Job {
    pub delivery: Delivery,
    pub answer: oneshot::Sender<Settled>,
    pub deadline: Instant,
    pub marks: Marks,
    /// Its event was known a while ago.
    pub is_repetition: bool,
}

/// What goes back to whoever waits. All that need not be done by the writer, on which everybody waits,
/// is left to them: to remember the row, and to free the delivery.
pub(super) struct Settled {
    pub answer: Answer,
    pub delivery: Delivery,
    /// The row that a repetition would meet, with when its transaction began.
    pub remembered: Option<(StoredEvent, Instant)>,
}

/// One writer.
pub(super) struct Writer {
    store: Arc<dyn Store>,
    terms: Terms,
    max_batch: usize,
    executing: Arc<Executing>,
    metrics: Arc<Metrics>,
    poison: Poison,
    aside: Aside,
    hints: Hints,
    foresight: Foresight,
}

/// What a writer does next.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    /// `None`: there will be no more.
    Job(Option<Job>),
    /// What was set aside and could not be settled there.
    Rest(Vec<Job>),
}

/// How a batch may be settled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In one statement, if it is plain.
    Short,
    Usual,
}

impl Writer {
    pub fn new(
        store: Arc<dyn Store>,
        terms: Terms,
        max_batch: usize,
        executing: Arc<Executing>,
        metrics: Arc<Metrics>,
        hints: Hints,
        foresight: Foresight,
    ) -> Self {
        let max_batch = max_batch.max(1);
        let aside = Aside::new(store.clone(), terms);
        let poison = Poison::default();
        Self { store, terms, max_batch, executing, metrics, poison, aside, hints, foresight }
    }

    /// Works until `stop`, then settles what waits.
    pub async fn run(mut self, mut jobs: mpsc::Receiver<Job>, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                rest = self.aside.rest(), if !self.aside.is_empty() => Next::Rest(rest),
                job = jobs.recv() => Next::Job(job),
                () = stop.cancelled() => {
                    jobs.close();
                    Next::Job(jobs.recv().await)
                }
            };
            let (batch, way) = match next {
                Next::Job(Some(first)) => (self.collect(first, &mut jobs), Way::Short),
                Next::Rest(rest) => (rest, Way::Usual),
                Next::Job(None) if self.aside.is_empty() => return,
                Next::Job(None) => (self.aside.rest().await, Way::Usual),
            };
            if batch.is_empty() {
                continue;
            }
            self.executing.begin(batch.iter().map(|job| (job.marks, job.delivery.id)));
            self.settle(batch, way).await;
            self.executing.end();
        }
    }

    /// The first delivery and what else waits. Deliveries that nobody waits for any more are left
    /// out: their senders come again.
    fn collect(&self, first: Job, jobs: &mut mpsc::Receiver<Job>) -> Vec<Job> {
        let now = Instant::now();
        let mut batch = Vec::with_capacity(self.max_batch.min(jobs.len() + 1));
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(job) = next {
            if job.deadline <= now {
                reply(job, answers::unavailable("the deadline passed while the delivery waited"));
            } else if !job.answer.is_closed() {
                bytes += job.delivery.request.body.len();
                batch.push(job);
            }
            if batch.len() >= self.max_batch || bytes >= MAX_BATCH_BYTES {
                break;
            }
            next = jobs.try_recv().ok();
        }
        batch
    }

    /// Settles a batch: whole if possible, else one delivery at a time.
    async fn settle(&mut self, batch: Vec<Job>, way: Way) {
        match self.attempt(batch, way).await {
            Ok(()) => {}
            Err((jobs, error)) if jobs.len() > 1 && may_be_one_delivery_alone(error.kind) => {
                tracing::debug!(error.kind = ?error.kind, batch.size = jobs.len(), "taking a failed batch apart");
                for job in jobs {
                    if job.deadline <= Instant::now() {
                        reply(job, answers::unavailable("the deadline passed while the delivery waited"));
                    } else if let Err((jobs, error)) = self.attempt(vec![job], Way::Usual).await {
                        self.give_up(jobs, &error).await;
                    }
                }
            }
            Err((jobs, error)) => self.give_up(jobs, &error).await,
        }
    }

    /// Applies the jobs in one transaction, again after failures that pass. Gives back what could
    /// not be settled.
    async fn attempt(&mut self, mut jobs: Vec<Job>, way: Way) -> Result<(), (Vec<Job>, StoreError)> {
        let mut retries = 0;
        let mut terms = self.terms;
        let mut care = self.poison.care(jobs.len());
        if way == Way::Short {
            (jobs, care) = self.attempt_at_once(jobs, care, &mut terms).await;
        }
        loop {
            if jobs.is_empty() {
                return Ok(());
            }
            let deliveries: Vec<&Delivery> = jobs.iter().map(|job| &job.delivery).collect();
            match apply(&*self.store, &deliveries, &terms, &Mode::Receive, care).await {
                Ok(committed) => {
                    self.answer(jobs, committed);
                    return Ok(());
                }
                Err(NotCommitted::Exclude(excluded)) => jobs = exclude(jobs, excluded),
                Err(NotCommitted::HandlerFailed) => care = self.poison.careful(),
                // A deferred constraint, perhaps: with care it is found in time.
                Err(NotCommitted::Store(error))
                    if care == Care::Trust && error.kind == StoreErrorKind::Data =>
                {
                    care = self.poison.careful();
                }
                Err(NotCommitted::Store(error)) => {
                    if retries >= MAX_RETRIES || !passes(error.kind) {
                        return Err((jobs, error));
                    }
                    tokio::time::sleep(RETRY_PAUSE * 2_u32.pow(retries)).await;
                    retries += 1;
                }
            }
        }
    }

    /// Settles what one statement can; gives back the others, and the care they need. An error is left to
    /// the usual way, which meets it again if it is still there.
    async fn attempt_at_once(
        &mut self,
        jobs: Vec<Job>,
        mut care: Care,
        terms: &mut Terms,
    ) -> (Vec<Job>, Care) {
        if !self.store.can_apply_at_once() {
            return (jobs, care);
        }
        let late = jobs.iter().filter(|job| job.is_repetition).count();
        let along = self.foresight.along_with(late);
        loop {
            let deliveries: Vec<&Delivery> = jobs.iter().map(|job| &job.delivery).collect();
            let known = Known { is_repetition: &|at| jobs[at].is_repetition, along: &along };
            match apply_at_once(&*self.store, &deliveries, known, terms, care).await {
                Ok(Some(mut settled)) => {
                    let read = along.into_iter().zip(std::mem::take(&mut settled.along));
                    let read = read.filter_map(|(expected, row)| Some((expected, row?)));
                    self.foresight.remember(read, settled.began);
                    return (self.answer_at_once(jobs, settled).await, care);
                }
                Err(NotCommitted::HandlerFailed) if care == Care::Trust => care = self.poison.careful(),
                Err(NotCommitted::Store(error)) if error.kind == StoreErrorKind::LockTimeout => {
                    // Whether for a key or for a handler's row, it has been waited for; a handler may go on
                    // waiting, but whoever holds a key had its time.
                    terms.limits.lock_wait = Duration::ZERO;
                    return (jobs, care);
                }
                Ok(None) | Err(_) => return (jobs, care),
            }
        }
    }

    /// Answers what one statement has settled, sets aside what failed in it, gives back the others.
    async fn answer_at_once(&mut self, jobs: Vec<Job>, settled: at_once::Settled) -> Vec<Job> {
        let mut rest = Vec::new();
        let mut failed = Vec::new();
        let batch = jobs.len();
        for (job, fate) in jobs.into_iter().zip(settled.fates) {
            match fate {
                AtOnceFate::Answered(composed) => settle(job, composed, settled.began),
                AtOnceFate::Failed(fate) => failed.push((job, fate)),
                AtOnceFate::Unsettled => rest.push(job),
            }
        }
        self.metrics.batch(batch - rest.len(), settled.took);
        self.poison.note(batch - rest.len(), failed.len());
        if !failed.is_empty() {
            rest.extend(self.aside.take(failed).await);
        }
        rest
    }

    fn answer(&self, jobs: Vec<Job>, committed: Committed) {
        self.metrics.batch(jobs.len(), committed.took);
        committed.forwarded.iter().for_each(|destination| self.hints.ring(destination));
        self.poison.note(jobs.len(), committed.poisoned);
        for (job, composed) in jobs.into_iter().zip(committed.answers) {
            settle(job, composed, committed.began);
        }
    }

    /// The last word on deliveries that could not be settled together.
    async fn give_up(&self, jobs: Vec<Job>, error: &StoreError) {
        let reason = with_causes(error);
        if error.kind != StoreErrorKind::LockTimeout {
            tracing::warn!(
                error.kind = ?error.kind,
                error.reason = %reason,
                deliveries = jobs.len(),
                "deliveries could not be settled",
            );
        }
        for job in jobs {
            let answer = match error.kind {
                StoreErrorKind::LockTimeout => answers::conflict(reason.clone()),
                StoreErrorKind::Data => self.refuse(&job.delivery, &reason).await,
                StoreErrorKind::Contention
                | StoreErrorKind::StatementTimeout
                | StoreErrorKind::Unavailable
                | StoreErrorKind::Statement
                | StoreErrorKind::Schema => answers::unavailable(reason.clone()),
            };
            reply(job, answer);
        }
    }

    /// Rejects a delivery whose transaction can never commit (a deferred constraint, for example).
    async fn refuse(&self, delivery: &Delivery, reason: &str) -> Answer {
        let mode = Mode::Refuse(reason.to_owned());
        match apply(&*self.store, &[delivery], &self.terms, &mode, Care::Chunks(1)).await {
            Ok(committed) => committed
                .answers
                .into_iter()
                .next()
                .map(|composed| composed.answer)
                .unwrap_or_else(|| answers::unavailable("the delivery was not settled")),
            Err(NotCommitted::Store(error)) => answers::unavailable(with_causes(&error)),
            Err(NotCommitted::Exclude(_) | NotCommitted::HandlerFailed) => answers::unavailable(reason),
        }
    }
}

/// Answers the deliveries that are left out, because an event of theirs failed for now; returns the others.
fn exclude(jobs: Vec<Job>, excluded: Vec<(usize, String)>) -> Vec<Job> {
    let mut reasons: std::collections::HashMap<usize, String> = excluded.into_iter().collect();
    let mut rest = Vec::with_capacity(jobs.len());
    for (at, job) in jobs.into_iter().enumerate() {
        match reasons.remove(&at) {
            Some(reason) => {
                let answer = answers::failed_for_now(&job.delivery, reason);
                reply(job, answer);
            }
            None => rest.push(job),
        }
    }
    rest
}

/// A delivery is settled by a transaction that began then.
pub(super) fn settle(job: Job, composed: Composed, began: Instant) {
    let remembered = composed.remembered.map(|row| (row, began));
    send(job.answer, Settled { answer: composed.answer, delivery: job.delivery, remembered });
}

fn reply(job: Job, answer: Answer) {
    send(job.answer, Settled { answer, delivery: job.delivery, remembered: None });
}

/// Sends the answer; whether somebody still waits for it does not matter any more.
fn send(to: oneshot::Sender<Settled>, settled: Settled) {
    drop(to.send(settled));
}

/// Whether the same batch may succeed if it is simply tried again.
fn passes(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Contention | StoreErrorKind::Unavailable)
}

/// Whether one delivery may have caused the failure of all.
fn may_be_one_delivery_alone(kind: StoreErrorKind) -> bool {
    match kind {
        StoreErrorKind::Contention
        | StoreErrorKind::LockTimeout
        | StoreErrorKind::StatementTimeout
        | StoreErrorKind::Data
        | StoreErrorKind::Statement => true,
        StoreErrorKind::Unavailable | StoreErrorKind::Schema => false,
    }
}

/// An error with its causes, for the log and the ledger.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
