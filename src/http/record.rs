//! What a delivery leaves behind: ledger entries, metrics, a line in the log.
//!
//! One ledger entry for each event of the delivery, or one for a delivery that was refused before
//! its events were known. Nothing here waits, and nothing here can change an answer.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use smallvec::{SmallVec, smallvec};

use crate::event::{Event, IdempotencyKey};
use crate::http::arrival::Arrival;
use crate::http::refused_headers;
use crate::http::state::Services;
use crate::inbox::outcome::{Answer, EventOutcome, EventState, Outcome};
use crate::source::Source;
use crate::store::LedgerEntry;
use crate::telemetry::metrics::{Metrics, UNKNOWN_SOURCE};

/// What is known of a delivery so far.
#[derive(Debug)]
pub(crate) struct Record {
    arrival: Arrival,
    source: Arc<Source>,
    /// Nearly always one.
    events: SmallVec<[EventLabel; 1]>,
    idempotency_key: Option<IdempotencyKey>,
    body_bytes: u32,
    /// Of a delivery that was refused.
    headers: Vec<(String, String)>,
}

/// What the ledger keeps of an event.
#[derive(Debug)]
struct EventLabel {
    id: Arc<str>,
    event_type: Arc<str>,
}

impl Record {
    pub(crate) fn open(arrival: Arrival, source: Arc<Source>) -> Self {
        Self {
            arrival,
            source,
            events: SmallVec::new(),
            idempotency_key: None,
            body_bytes: 0,
            headers: Vec::new(),
        }
    }

    pub(crate) fn arrival(&self) -> &Arrival {
        &self.arrival
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn note_body(&mut self, bytes: usize) {
        self.body_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    pub(crate) fn note_events(&mut self, events: &[Event]) {
        self.events = events
            .iter()
            .map(|event| EventLabel {
                id: Arc::clone(&event.key.event_id),
                event_type: Arc::clone(&event.event_type),
            })
            .collect();
    }

    pub(super) fn note_key(&mut self, key: &IdempotencyKey) {
        self.idempotency_key = Some(key.clone());
    }

    /// The delivery is refused: whoever looks for the cause needs its headers.
    pub(super) fn note_refused(&mut self, headers: &HeaderMap) {
        self.headers = refused_headers::shown(headers, &self.source.verifier);
    }

    /// The delivery was answered.
    pub(crate) fn close(self, answer: &Answer, services: &Services) {
        let duration = self.arrival.started.elapsed();
        services.metrics.delivery(&self.source.name, answer.outcome, duration);
        for (_, outcome) in &answer.events {
            services.metrics.event(&self.source.name, *outcome);
        }
        self.log(answer, duration);
        services.ledger.record(self.entries(answer, duration));
    }

    /// The delivery is kept to be tried again: counted, and nothing else.
    pub(crate) fn close_for_now(self, answer: &Answer, services: &Services) {
        let duration = self.arrival.started.elapsed();
        services.metrics.delivery(&self.source.name, answer.outcome, duration);
        self.log(answer, duration);
    }

    fn log(&self, answer: &Answer, duration: Duration) {
        tracing::debug!(
            delivery.id = %self.arrival.id,
            source.name = %self.source.name,
            delivery.outcome = answer.outcome.as_str(),
            delivery.status = answer.reply.status,
            delivery.events = self.events.len(),
            delivery.bytes = self.body_bytes,
            delivery.reason = answer.reason.as_deref(),
            duration.us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            "delivery answered",
        );
    }

    fn entries(&self, answer: &Answer, duration: Duration) -> SmallVec<[LedgerEntry; 1]> {
        let entry = |ordinal: usize, event: Option<&EventLabel>, outcome: Outcome| LedgerEntry {
            delivery_id: self.arrival.id,
            ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
            received_at: self.arrival.at,
            source: Arc::clone(&self.source.name),
            event_id: event.map(|event| Arc::clone(&event.id)),
            event_type: event.map(|event| Arc::clone(&event.event_type)),
            idempotency_key: self.idempotency_key.as_ref().map(IdempotencyKey::shared),
            outcome,
            status: answer.reply.status,
            duration,
            body_bytes: self.body_bytes,
            peer: self.arrival.peer.as_ref().map(|peer| Arc::clone(&peer.name)),
            reason: answer.reason.clone(),
            headers: self.headers.clone(),
        };
        if self.events.is_empty() {
            return smallvec![entry(0, None, answer.outcome)];
        }
        // The inbox names the events in the order of the body, or none of them.
        let looked_at = answer.events.len() == self.events.len();
        self.events
            .iter()
            .enumerate()
            .map(|(ordinal, event)| {
                let outcome = if looked_at { of_event(answer.events[ordinal].1) } else { answer.outcome };
                entry(ordinal, Some(event), outcome)
            })
            .collect()
    }
}

/// A request to `/hooks/…` that named no source: counted, and nothing else.
pub(super) fn unknown_source(metrics: &Metrics, arrival: &Arrival, outcome: Outcome) {
    metrics.delivery(UNKNOWN_SOURCE, outcome, arrival.started.elapsed());
}

fn of_event(outcome: EventOutcome) -> Outcome {
    match outcome {
        EventOutcome::New(EventState::Applied) => Outcome::Applied,
        EventOutcome::New(EventState::Ignored) => Outcome::Ignored,
        EventOutcome::New(EventState::Stale) => Outcome::Stale,
        EventOutcome::New(EventState::Rejected) => Outcome::Rejected,
        EventOutcome::Replayed => Outcome::Replayed,
        EventOutcome::Duplicate => Outcome::Duplicate,
        EventOutcome::Unavailable => Outcome::Unavailable,
    }
}
