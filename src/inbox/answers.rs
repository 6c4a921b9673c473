//! From what became of the events to what each sender is told.
//!
//! Pure: reads claims and slots, composes answers. Internal reasons go into `Answer::reason`, which
//! only the ledger sees.

use crate::event::{Delivery, Event, EventKey};
use crate::inbox::claims::{Claim, Claims};
use crate::inbox::outcome::{Answer, EventOutcome, EventState, Outcome};
use crate::inbox::slots::{Fate, Slot, Slots, Standing, inline_fingerprint};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::source::ReplayErrors;
use crate::store::{Age, DeathCause, StoredEvent};

/// `Retry-After` of an answer that asks the sender to come again.
pub(super) const RETRY_AFTER_SECONDS: u32 = 1;

/// An answer, and whether a repetition of the request will get it back.
pub(super) struct Composed {
    pub answer: Answer,
    pub is_stored: bool,
}

/// The answers of a batch, in the order of its deliveries.
pub(super) fn compose(deliveries: &[&Delivery], claims: &Claims<'_>, slots: &Slots<'_>) -> Vec<Composed> {
    let mut composed: Vec<Option<Composed>> = deliveries
        .iter()
        .enumerate()
        .map(|(at, delivery)| match claims.of(at) {
            Claim::Open => Some(from_events(at, delivery, slots)),
            Claim::Replay(reply) => Some(Composed { answer: replay(reply.clone()), is_stored: true }),
            Claim::Mismatch => Some(Composed { answer: mismatch(), is_stored: true }),
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
    Composed { answer: unavailable(reason), is_stored: false }
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
        return Composed { answer: owner.answer.clone(), is_stored: false };
    }
    let mut answer = replay(owner.answer.reply.clone());
    answer.events =
        owner.answer.events.iter().map(|(key, _)| (key.clone(), EventOutcome::Replayed)).collect();
    Composed { answer, is_stored: true }
}

fn from_events(at: usize, delivery: &Delivery, slots: &Slots<'_>) -> Composed {
    match delivery.events.as_slice() {
        [event] if !delivery.is_batch => match slots.of(&event.key) {
            Some(slot) => single(at, delivery, slot),
            None => transient("the event was not settled"),
        },
        _ => batch(at, delivery, slots),
    }
}

/// The answer to a delivery of one event.
fn single(at: usize, delivery: &Delivery, slot: &Slot<'_>) -> Composed {
    let source = &delivery.source;
    if is_another_request(delivery, slot) {
        return Composed { answer: mismatch(), is_stored: true };
    }
    let event = slot.fresh.event;
    let with = |outcome, event_outcome, reply, replayed, reason| Answer {
        outcome,
        reply,
        replayed,
        retry_after_seconds: None,
        events: vec![(event.key.clone(), event_outcome)],
        reason,
    };
    match &slot.standing {
        Standing::Stored(row) => match row.age {
            Age::AnswerLive => Composed {
                answer: with(Outcome::Replayed, EventOutcome::Replayed, stored_reply(row, event), true, None),
                is_stored: true,
            },
            Age::EventLive | Age::Expired => Composed {
                answer: with(
                    Outcome::Duplicate,
                    EventOutcome::Duplicate,
                    Reply::duplicate(source.success_status, &event.key),
                    false,
                    None,
                ),
                is_stored: true,
            },
        },
        Standing::Settled(Fate::Failed { reason }) => {
            let mut answer = unavailable(reason.clone());
            answer.events = vec![(event.key.clone(), EventOutcome::Unavailable)];
            Composed { answer, is_stored: false }
        }
        Standing::Settled(fate) => {
            let Some((state, status, own)) = fate.stored_as(source.success_status) else {
                return transient("the event was not settled");
            };
            let reply = own.unwrap_or_else(|| Reply::standard(state, status, &event.key));
            let is_stored = state != EventState::Rejected || source.replay_errors != ReplayErrors::None;
            if slot.owner != at && is_stored {
                return Composed {
                    answer: with(Outcome::Replayed, EventOutcome::Replayed, reply, true, None),
                    is_stored,
                };
            }
            let answer = with(delivery_outcome(state), EventOutcome::New(state), reply, false, reason(fate));
            Composed { answer, is_stored }
        }
        Standing::Pending => transient("the event was not settled"),
    }
}

/// Whether the explicit key, which is the event id, first came with another request.
fn is_another_request(delivery: &Delivery, slot: &Slot<'_>) -> bool {
    let Some(ours) = inline_fingerprint(delivery) else { return false };
    let theirs = match &slot.standing {
        // The key's scope is the source: another source's row says nothing about it.
        Standing::Stored(row) if *row.source == *delivery.source.name && row.age == Age::AnswerLive => {
            row.fingerprint
        }
        Standing::Stored(_) => None,
        Standing::Settled(_) | Standing::Pending
            if slot.fresh.delivery.source.name == delivery.source.name =>
        {
            slot.fingerprint
        }
        Standing::Settled(_) | Standing::Pending => None,
    };
    theirs.is_some_and(|theirs| theirs != ours)
}

fn stored_reply(row: &StoredEvent, event: &Event) -> Reply {
    row.reply.clone().unwrap_or_else(|| Reply::standard(row.state, row.status, &event.key))
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
            return transient(reasons.first().map_or("an event failed for now", String::as_str));
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
        return Composed { answer, is_stored: may_replay };
    }
    let outcome = overall(&events);
    let status = delivery.source.success_status;
    let reply = Reply::batch(status, outcome.as_str(), events.iter().map(|(key, outcome)| (key, *outcome)));
    let answer = Answer { outcome, reply, replayed: false, retry_after_seconds: None, events, reason };
    Composed { answer, is_stored: refusal.is_none() || may_replay }
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
