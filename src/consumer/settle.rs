//! One message to its end: read, applied, noted; again while the database is away.
//!
//! *Done* means that everything the message asks for is committed: its events applied, known already, or
//! kept as dead letters. Only then may it be acknowledged.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::QueueSpec;
use crate::clock;
use crate::event::{Delivery, Event, EventKey, JsonText, RawRequest};
use crate::http::{Arrival, Peer, Record, ServerState};
use crate::inbox::UNREADABLE;
use crate::inbox::outcome::{Answer, Outcome};
use crate::outbox::backoff::{self, Backoff};
use crate::problem::Problem;
use crate::source::Source;

/// Pauses between attempts to settle a message.
const AGAIN: Backoff = Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(30) };

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// To be acknowledged.
    Done,
    /// Not settled, and there is no time for it any more: it comes again.
    Left,
}

/// Settles the messages of one source.
pub(super) struct Settler {
    spec: Arc<QueueSpec>,
    state: Arc<ServerState>,
    /// Where messages come from, for the ledger.
    peer: Peer,
}

/// A message as the inbox takes it.
enum Read {
    Delivery(Delivery),
    /// It has no event that this source could apply: a dead letter under a name made of its bytes.
    Unreadable(Delivery, String),
}

impl Settler {
    pub(super) fn new(spec: Arc<QueueSpec>, state: Arc<ServerState>) -> Self {
        Self { peer: Peer::named(&spec.broker.url.place()), spec, state }
    }

    pub(super) fn connected(&self, is_connected: bool) {
        self.state.services().metrics.consumers.connected(&self.spec.source, is_connected);
    }

    /// Counts a message as taken until the guard is dropped.
    pub(super) fn count(&self) -> impl Drop + use<> {
        self.state.services().metrics.consumers.take(&self.spec.source)
    }

    /// Until everything is committed, or `session` ends and there is nothing to wait for.
    pub(super) async fn settle(&self, request: RawRequest, session: &CancellationToken) -> Settled {
        let services = self.state.services();
        let mut failures: u32 = 0;
        let mut attempts: u32 = 0;
        loop {
            failures = failures.saturating_add(1);
            // A source may be configured anew while its queue goes on. One that was taken out may be put
            // back: a message that was let go of would not come again before the connection is lost.
            let Some(source) = self.state.source(&self.spec.source) else {
                if rest(failures, session).await {
                    continue;
                }
                return Settled::Left;
            };
            let arrival = Arrival::from_peer(Some(self.peer.clone()), &services.clock);
            let mut record = Record::open(arrival, source.clone());
            record.note_body(request.body.len());
            let (delivery, unreadable) = match self.read(&source, &request, &record) {
                Read::Delivery(delivery) => {
                    record.note_events(&delivery.events);
                    (delivery, None)
                }
                Read::Unreadable(delivery, reason) => (delivery, Some(reason)),
            };
            let mut answer = match &unreadable {
                Some(reason) => services.inbox.refuse(&delivery, reason).await,
                None => services.inbox.submit(delivery.clone()).await,
            };
            if unreadable.is_none() && is_an_events_failure(&answer) {
                attempts += 1;
                if attempts >= self.spec.max_attempts {
                    let reason = answer.reason.as_deref().unwrap_or_default();
                    let reason = format!("given up after {attempts} attempts: {reason}");
                    answer = services.inbox.refuse(&delivery, &reason).await;
                }
            }
            if is_settled(answer.outcome) {
                record.close(&as_told(answer, unreadable), services);
                return Settled::Done;
            }
            record.close_for_now(&answer, services);
            if !rest(failures, session).await {
                return Settled::Left;
            }
        }
    }

    fn read(&self, source: &Arc<Source>, request: &RawRequest, record: &Record) -> Read {
        let limit = self.state.limits().max_body_bytes;
        let parsed = if request.body.len() > limit {
            Err(format!("it has {} bytes, and http.max_body_bytes is {limit}", request.body.len()))
        } else {
            source.envelope.parse(&source.consumer, request).map_err(|error| error.to_string())
        };
        let delivery = |events: Vec<Event>, is_batch| Delivery {
            id: record.arrival().id,
            guard: source.guard(&request.body, &events),
            events,
            is_batch,
            // A queue has no conversation to be repeated: the event's key is all there is.
            explicit_key: None,
            request: request.clone(),
            received_at: record.arrival().at,
            source: source.clone(),
        };
        match parsed {
            Ok(parsed) => Read::Delivery(delivery(parsed.events, parsed.is_batch)),
            Err(reason) => Read::Unreadable(delivery(vec![nameless(source, request)], false), reason),
        }
    }
}

/// Whether the message's own events failed, and not the database, or an inbox that has too much to do: then
/// nobody has looked at its events.
fn is_an_events_failure(answer: &Answer) -> bool {
    answer.outcome == Outcome::Unavailable && !answer.events.is_empty()
}

/// Pauses after so many failures; false: there is no time for another attempt.
async fn rest(failures: u32, session: &CancellationToken) -> bool {
    let pause = AGAIN.pause(failures, backoff::fraction(clock::new_id()));
    !session.is_cancelled() && session.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
}

/// What stands for a message in which no event was found. The same bytes get the same name.
fn nameless(source: &Source, request: &RawRequest) -> Event {
    let mut hash = Sha256::new();
    for (name, value) in request.headers.iter() {
        hash.update(name.as_bytes());
        hash.update(value);
    }
    hash.update(&request.body);
    let event_id = format!("{UNREADABLE}{}", hex::encode(hash.finalize())).into();
    Event {
        key: EventKey { consumer: source.consumer.clone(), event_id },
        event_type: "".into(),
        occurred_at: None,
        payload: JsonText::null(),
        data: JsonText::null(),
        order: None,
    }
}

/// Whether there is nothing left to do.
fn is_settled(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Applied
        | Outcome::Replayed
        | Outcome::Duplicate
        | Outcome::Stale
        | Outcome::Ignored
        | Outcome::Rejected
        | Outcome::Mismatch
        | Outcome::Handshake
        | Outcome::Unverified
        | Outcome::Malformed => true,
        Outcome::Conflict | Outcome::Unavailable => false,
    }
}

/// For ledger and metrics: a message without an event is malformed, whatever the dead letter is called.
fn as_told(answer: Answer, unreadable: Option<String>) -> Answer {
    match unreadable {
        None => answer,
        Some(reason) => Answer {
            outcome: Outcome::Malformed,
            reply: Problem::MalformedBody.reply(),
            events: Vec::new(),
            reason: Some(reason),
            ..answer
        },
    }
}
