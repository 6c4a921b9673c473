//! From what became of the events to what each sender is told.
//!
//! Pure: reads claims and slots, composes answers. Internal reasons go into `Answer::reason`, which
//! only the ledger sees.

use std::time::Duration;

use crate::event::{Delivery, Event, EventKey, Fingerprint};
use crate::inbox::claims::{Claim, Claims};
use crate::inbox::guards::{Bar, Guards};
use crate::inbox::outcome::{Answer, EventOutcome, EventState, Outcome};
use crate::inbox::slots::{Fate, Slot, Slots, Standing, inline_fingerprint};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::source::ReplayErrors;
use crate::store::{Age, DeathCause, StoredEvent};

/// `Retry-After` of an answer that asks the sender to come again.
pub(super) const RETRY_AFTER_SECONDS: u32 = 1;

/// The ledger's words on deliveries that a guarded body barred.
const SEEN: &str = "the same body has taken effect under another id (replay_guard): a captured delivery, or two \
                    events that are alike to the byte";
const BEHIND: &str = "the same body came under another id at the same time, and did not take effect";

/// An answer, and whether a repetition of the request will get it back.
pub(super) struct Composed {
    pub answer: Answer,
    pub is_stored: bool,
    /// The row that a repetition would meet.
    pub remembered: Option<StoredEvent>,
}

impl Composed {
    fn new(answer: Answer, is_stored: bool) -> Self {
        Self { answer, is_stored, remembered: None }
    }
}

/// The answers of a batch, in the order of its deliveries.
pub(super) fn compose(
    deliveries: &[&Delivery],
    claims: &Claims<'_>,
    guards: &Guards<'_>,
    slots: &Slots<'_>,
    answers_live: Duration,
) -> Vec<Composed> {
    let mut composed: Vec<Option<Composed>> = deliveries
        .iter()
        .enumerate()
        .map(|(at, delivery)| match claims.of(at) {
            Claim::Open => Some(match guards.bar(at) {
                None => from_events(at, delivery, slots, answers_live),
                Some(Bar::Behind(owner)) if !slots.took_effect(deliveries[owner]) => transient(BEHIND),
                Some(Bar::Seen | Bar::Behind(_)) => seen(delivery),
            }),
            Claim::Replay(reply) => Some(Composed::new(replay(reply.clone()), true)),
            Claim::Mismatch => Some(Composed::new(mismatch(), true)),
            Claim::Follow(_) => None,
        })
        .collect();
    // Whom they follow is settled by now: an owner never follows.
    for at in 0..composed.len() {
        if let Claim::Follow(owner) = claims.of(at)
            && let Some(owner) = &composed[*owner]
        {
            composed[at] = Some(follow(owner));
        }
    }
    composed.into_iter().map(|c| c.unwrap_or_else(|| transient("the delivery was not settled"))).collect()
}

/// The answer to a delivery whose database work failed for now: nothing was stored.
pub(super) fn unavailable(reason: impl Into<String>) -> Answer {
    Answer {
        outcome: Outcome::Unavailable,
        reply: Problem::Unavailable.reply(),
        replayed: false,
        retry_after_seconds: Some(RETRY_AFTER_SECONDS),
        events: Vec::new(),
        reason: Some(reason.into()),
    }
}

/// The answer to a delivery of which a handler failed on an event for now. Nothing of it was stored, and all
/// its events say so: that is how it differs from one that nobody had the time to look at.
pub(super) fn failed_for_now(delivery: &Delivery, reason: String) -> Answer {
    let events = delivery.events.iter().map(|event| (event.key.clone(), EventOutcome::Unavailable));
    Answer { events: events.collect(), ..unavailable(reason) }
}

/// The answer to a delivery whose key is being processed elsewhere.
pub(super) fn conflict(reason: impl Into<String>) -> Answer {
    Answer {
        outcome: Outcome::Conflict,
        reply: Problem::RequestInProgress.reply(),
        replayed: false,
        retry_after_seconds: Some(RETRY_AFTER_SECONDS),
        events: Vec::new(),
        reason: Some(reason.into()),
    }
}

fn transient(reason: &str) -> Composed {
    Composed::new(unavailable(reason), false)
}

fn mismatch() -> Answer {
    Answer {
        outcome: Outcome::Mismatch,
        reply: Problem::IdempotencyKeyReused.reply(),
        replayed: false,
        retry_after_seconds: None,
        events: Vec::new(),
        reason: Some("the Idempotency-Key was first used for another request".into()),
    }
}

fn replay(reply: Reply) -> Answer {
    Answer {
        outcome: Outcome::Replayed,
        reply,
        replayed: true,
        retry_after_seconds: None,
        events: Vec::new(),
        reason: None,
    }
}

/// What a delivery gets whose twin in the same batch came first.
fn follow(owner: &Composed) -> Composed {
    if !owner.is_stored {
        return Composed::new(owner.answer.clone(), false);
    }
    let mut answer = replay(owner.answer.reply.clone());
    answer.events =
        owner.answer.events.iter().map(|(key, _)| (key.clone(), EventOutcome::Replayed)).collect();
    Composed::new(answer, true)
}

fn from_events(at: usize, delivery: &Delivery, slots: &Slots<'_>, answers_live: Duration) -> Composed {
    match delivery.events.as_slice() {
        [event] if !delivery.is_batch => match slots.of(&event.key) {
            Some(slot) => single(at, delivery, slot, answers_live),
            None => transient("the event was not settled"),
        },
        _ => batch(at, delivery, slots),
    }
}

/// The answer to a body that has taken effect under other ids. Leaves nothing under an explicit key:
/// who repeats a captured delivery may choose that too.
fn seen(delivery: &Delivery) -> Composed {
    let status = delivery.source.success_status;
    let events: Vec<_> =
        delivery.events.iter().map(|event| (event.key.clone(), EventOutcome::Duplicate)).collect();
    let reply = match events.as_slice() {
        [(key, _)] if !delivery.is_batch => Reply::duplicate(status, key),
        _ => {
            let lines = events.iter().map(|(key, outcome)| (key, *outcome));
            Reply::batch(status, Outcome::Duplicate.as_str(), lines)
        }
    };
    let answer = Answer {
        outcome: Outcome::Duplicate,
        reply,
        replayed: false,
        retry_after_seconds: None,
        events,
        reason: Some(SEEN.into()),
    };
    Composed::new(answer, false)
}

/// The answer to a delivery of one event that was processed before.
pub(super) fn repeated(delivery: &Delivery, event: &Event, row: &StoredEvent) -> Answer {
    if row.age == Age::AnswerLive {
        // The key's scope is the source: another source's row says nothing about it.
        let theirs = (*row.source == *delivery.source.name).then_some(row.fingerprint).flatten();
        if is_another_request(delivery, theirs) {
            return mismatch();
        }
        let reply = row.reply.clone().unwrap_or_else(|| Reply::standard(row.state, row.status, &event.key));
        return Answer { events: vec![(event.key.clone(), EventOutcome::Replayed)], ..replay(reply) };
    }
    Answer {
        outcome: Outcome::Duplicate,
        reply: Reply::duplicate(delivery.source.success_status, &event.key),
        replayed: false,
        retry_after_seconds: None,
        events: vec![(event.key.clone(), EventOutcome::Duplicate)],
        reason: None,
    }
}

/// Whether repetitions can be answered by this row for a while. A rejected event may be tried again.
pub(super) fn can_be_remembered(row: &StoredEvent) -> bool {
    row.age == Age::AnswerLive && row.state != EventState::Rejected
}

/// The answer to a delivery of one event.
pub(super) fn single(at: usize, delivery: &Delivery, slot: &Slot<'_>, answers_live: Duration) -> Composed {
    let event = slot.fresh.event;
    let fate = match &slot.standing {
        Standing::Stored(row) => {
            let remembered = can_be_remembered(row).then(|| row.clone());
            return Composed { remembered, ..Composed::new(repeated(delivery, event, row), true) };
        }
        Standing::Settled(fate) => fate,
        Standing::Pending => return transient("the event was not settled"),
    };
    let owners = &slot.fresh.delivery.source;
    let theirs = (owners.name == delivery.source.name).then_some(slot.fingerprint).flatten();
    if is_another_request(delivery, theirs) {
        return Composed::new(mismatch(), true);
    }
    if let Fate::Failed { reason } = fate {
        return Composed::new(failed_for_now(delivery, reason.clone()), false);
    }
    let Some((state, status, own)) = fate.stored_as(delivery.source.success_status) else {
        return transient("the event was not settled");
    };
    let is_stored = state != EventState::Rejected || delivery.source.replay_errors != ReplayErrors::None;
    let reply = own.clone().unwrap_or_else(|| Reply::standard(state, status, &event.key));
    if slot.owner != at && is_stored {
        let events = vec![(event.key.clone(), EventOutcome::Replayed)];
        return Composed::new(Answer { events, ..replay(reply) }, is_stored);
    }
    let answer = Answer {
        outcome: delivery_outcome(state),
        reply,
        replayed: false,
        retry_after_seconds: None,
        events: vec![(event.key.clone(), EventOutcome::New(state))],
        reason: reason(fate),
    };
    let remembered = (state != EventState::Rejected).then(|| StoredEvent {
        source: owners.name.clone(),
        state,
        status,
        reply: own,
        fingerprint: slot.fingerprint,
        age: Age::AnswerLive,
        answer_left: answers_live,
    });
    Composed { remembered, ..Composed::new(answer, is_stored) }
}

/// Whether the explicit key, which is the event id, first came with another request.
fn is_another_request(delivery: &Delivery, theirs: Option<Fingerprint>) -> bool {
    inline_fingerprint(delivery).is_some_and(|ours| theirs.is_some_and(|theirs| theirs != ours))
}

/// The answer to a body that carried a list: one status for all, a line for each.
fn batch(at: usize, delivery: &Delivery, slots: &Slots<'_>) -> Composed {
    let mut events = Vec::with_capacity(delivery.events.len());
    let mut reasons: Vec<String> = Vec::new();
    let mut refusal: Option<Problem> = None;
    let mut accepted = 0_usize;
    let mut seen = std::collections::HashSet::new();
    for event in &delivery.events {
        let Some(slot) = slots.of(&event.key) else { return transient("an event was not settled") };
        let is_repetition = slot.owner != at || !seen.insert(&event.key);
        let (outcome, refused) = item(slot, is_repetition);
        if let Some(problem) = refused {
            refusal = Some(problem);
        } else {
            accepted += 1;
        }
        if let (Standing::Settled(fate), false) = (&slot.standing, is_repetition)
            && let Some(reason) = reason(fate)
        {
            reasons.push(format!("{}: {reason}", event.key.event_id));
        }
        if outcome == EventOutcome::Unavailable {
            return match &slot.standing {
                Standing::Settled(Fate::Failed { reason }) => {
                    Composed::new(failed_for_now(delivery, reason.clone()), false)
                }
                _ => transient("an event was not settled"),
            };
        }
        events.push((event.key.clone(), outcome));
    }
    let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    let may_replay = delivery.source.replay_errors != ReplayErrors::None;
    if let (Some(problem), 0) = (refusal, accepted) {
        let answer = Answer {
            outcome: Outcome::Rejected,
            reply: problem.reply(),
            replayed: false,
            retry_after_seconds: None,
            events,
            reason,
        };
        return Composed::new(answer, may_replay);
    }
    let outcome = overall(&events);
    let status = delivery.source.success_status;
    let reply = Reply::batch(status, outcome.as_str(), events.iter().map(|(key, outcome)| (key, *outcome)));
    let answer = Answer { outcome, reply, replayed: false, retry_after_seconds: None, events, reason };
    Composed::new(answer, refusal.is_none() || may_replay)
}

/// What a list's delivery met with one of its events, and the refusal if it was refused.
fn item(slot: &Slot<'_>, is_repetition: bool) -> (EventOutcome, Option<Problem>) {
    match &slot.standing {
        Standing::Stored(row) if row.state == EventState::Rejected => {
            (EventOutcome::New(EventState::Rejected), Some(problem_of_status(row.status)))
        }
        Standing::Stored(_) => (EventOutcome::Duplicate, None),
        Standing::Settled(Fate::Failed { .. }) | Standing::Pending => (EventOutcome::Unavailable, None),
        Standing::Settled(Fate::Rejected { cause, .. }) => {
            let problem = match cause {
                DeathCause::Rejected => Problem::EventRejected,
                DeathCause::Failed => Problem::EventFailed,
                DeathCause::TooOld => Problem::EventTooOld,
            };
            (EventOutcome::New(EventState::Rejected), Some(problem))
        }
        Standing::Settled(_) if is_repetition => (EventOutcome::Duplicate, None),
        Standing::Settled(Fate::Applied(_)) => (EventOutcome::New(EventState::Applied), None),
        Standing::Settled(Fate::Ignored) => (EventOutcome::New(EventState::Ignored), None),
        Standing::Settled(Fate::Stale) => (EventOutcome::New(EventState::Stale), None),
    }
}

fn problem_of_status(status: u16) -> Problem {
    if status == Problem::EventFailed.status() { Problem::EventFailed } else { Problem::EventRejected }
}

/// The outcome of a list as a whole: the strongest that any of its events met.
fn overall(events: &[(EventKey, EventOutcome)]) -> Outcome {
    const STRONGEST_FIRST: [EventState; 3] = [EventState::Applied, EventState::Stale, EventState::Ignored];
    for state in STRONGEST_FIRST {
        if events.iter().any(|(_, outcome)| *outcome == EventOutcome::New(state)) {
            return delivery_outcome(state);
        }
    }
    if events.is_empty() { Outcome::Ignored } else { Outcome::Duplicate }
}

fn delivery_outcome(state: EventState) -> Outcome {
    match state {
        EventState::Applied => Outcome::Applied,
        EventState::Ignored => Outcome::Ignored,
        EventState::Stale => Outcome::Stale,
        EventState::Rejected => Outcome::Rejected,
    }
}

fn reason(fate: &Fate) -> Option<String> {
    match fate {
        Fate::Rejected { reason, .. } | Fate::Failed { reason } => Some(reason.clone()),
        Fate::Applied(_) | Fate::Ignored | Fate::Stale => None,
    }
}
