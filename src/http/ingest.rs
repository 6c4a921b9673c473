//! `POST /hooks/{source}`: size, source, signature, envelope, key, inbox, answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::FutureExt;

use crate::envelope::{self, EnvelopeError};
use crate::event::{Delivery, ExplicitKey};
use crate::http::answer;
use crate::http::arrival::{Arrival, client_certificate, raw_request};
use crate::http::body::{self, BodyError, Reservation};
use crate::http::contract;
use crate::http::outlive::outlive;
use crate::http::question;
use crate::http::record::{self, Record};
use crate::http::state::ServerState;
use crate::inbox::HandedOver;
use crate::inbox::outcome::{Answer, Outcome};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::signature;
use crate::source::{Intake, Source};

/// The method of every delivery: verified and fingerprinted with it.
pub(super) const METHOD: &str = "POST";

/// `Retry-After` of a delivery that could not be taken here and now.
const RETRY_SECONDS: u32 = 1;

/// Takes a delivery.
pub(super) async fn receive(
    request: HttpRequest,
    mut payload: Payload,
    name: &str,
    state: Data<ServerState>,
) -> HttpResponse {
    let arrival = Arrival::now(&request, &state.services.clock);
    let id = arrival.id;
    let settled =
        AssertUnwindSafe(ingest(&request, &mut payload, name, &state, arrival)).catch_unwind().await;
    let answer = settled.unwrap_or_else(|_| {
        tracing::error!(delivery.id = %id, source.name = %name, "taking a delivery panicked");
        Answer::from(Refused { outcome: Outcome::Unavailable, ..Refused::malformed(Problem::Internal) })
    });
    answer::keeping(answer::to_delivery(&answer, id), payload)
}

/// Whatever no route leads to; below `/hooks` it is answered as a delivery is.
pub(super) async fn nothing_here(
    request: HttpRequest,
    payload: Payload,
    state: Data<ServerState>,
) -> HttpResponse {
    let path = request.path();
    let response = if path == "/hooks" || path.starts_with("/hooks/") {
        refuse_path(&request, &state, Problem::UnknownSource)
    } else {
        answer::problem(Problem::NotFound)
    };
    answer::unread(response, &request, payload).await
}

async fn ingest(
    request: &HttpRequest,
    payload: &mut Payload,
    name: &str,
    state: &Data<ServerState>,
    arrival: Arrival,
) -> Answer {
    let size = body::check_length(request.headers(), &state.limits);
    let posted = state.sources.find(name).filter(|source| source.intake == Intake::Posted);
    let Some(source) = posted else {
        let refused = size.map_or_else(Refused::from, |()| Refused::malformed(Problem::UnknownSource));
        let answer = Answer::from(refused);
        record::unknown_source(&state.services.metrics, &arrival, answer.outcome);
        body::discard_rest(payload, request.headers()).await;
        return answer;
    };
    // In pieces of memory of their own: what an allocator has at hand is not larger.
    let step = {
        let mut record = Record::open(arrival, Arc::clone(&source));
        match Box::pin(admit(request, payload, source, state, &mut record)).await {
            Ok(Admitted::Delivery { delivery, memory }) => deliver(delivery, memory, record, state),
            Ok(Admitted::Question(reply)) => {
                let answer = question::answered(reply);
                record.close(&answer, &state.services);
                Step::Answered(answer)
            }
            Err(refused) => Step::Refused(refuse(refused, record, request, state)),
        }
    };
    match step {
        Step::Answered(answer) => answer,
        Step::Waits(settled) => settled.await,
        Step::Refused(answer) => {
            body::discard_rest(payload, request.headers()).await;
            answer
        }
    }
}

/// How a delivery goes on.
enum Step<Settled> {
    Answered(Answer),
    Waits(Settled),
    /// And nobody has read its body, perhaps.
    Refused(Answer),
}

/// Everything that is checked before the inbox, cheapest first. Notes on the way what is known.
async fn admit(
    request: &HttpRequest,
    payload: &mut Payload,
    source: Arc<Source>,
    state: &ServerState,
    record: &mut Record,
) -> Result<Admitted, Refused> {
    let headers = request.headers();
    record.note_body(body::declared_length(headers).unwrap_or(0));
    body::check_length(headers, &state.limits)?;
    body::check_encoding(headers)?;
    let body = body::read(payload, headers, &state.limits, &state.budget).await?;
    record.note_body(body.bytes.len());

    let raw = raw_request(request, body.bytes);
    let now = record.arrival().at;
    source.verifier.check_address(record.arrival().peer_address(), &raw)?;
    if source.verifier.needs_preparation() {
        source.verifier.prepare(&raw, now).await;
    }
    let verified = source.verifier.verify_from(client_certificate(request).as_deref(), METHOD, &raw, now)?;
    if let Some(secret) = verified.secret_index {
        state.services.metrics.signature_matched(&source.name, secret);
    }
    if let Some(reply) = source.verifier.signed_question(&raw, &verified) {
        return Ok(Admitted::Question(reply));
    }
    let parsed = source.envelope.parse(&source.consumer, &raw)?;
    record.note_events(&parsed.events);
    let key = envelope::idempotency_key(source.key_policy, &raw)?;
    if let Some(key) = &key {
        record.note_key(key);
    }
    let explicit_key = key
        .map(|key| ExplicitKey { key, fingerprint: envelope::fingerprint(METHOD, &raw.target, &raw.body) });
    let guard = source.guard(&raw.body, &parsed.events);
    let delivery = Delivery {
        id: record.arrival().id,
        source,
        events: parsed.events,
        is_batch: parsed.is_batch,
        explicit_key,
        guard,
        request: raw,
        received_at: record.arrival().at,
    };
    Ok(Admitted::Delivery { delivery, memory: body.reservation })
}

/// What was verified.
#[expect(clippy::large_enum_variant, reason = "there is one to a request, for a moment")]
enum Admitted {
    /// It may go to the inbox. With the memory its body holds.
    Delivery { delivery: Delivery, memory: Reservation },
    /// The sender only asks whether the address is ours.
    Question(Reply),
}

/// Hands the delivery over, and notes what becomes of it, whether or not the sender still waits.
fn deliver(
    delivery: Delivery,
    memory: Reservation,
    record: Record,
    state: &Data<ServerState>,
) -> Step<impl Future<Output = Answer> + use<>> {
    match state.services.inbox.hand_over(delivery) {
        HandedOver::Answered(answer) => Step::Answered(settled(answer, record, state)),
        HandedOver::Waits(mut pending) => {
            let state = Data::clone(state);
            let runtime = state.services.runtime.clone();
            Step::Waits(outlive(runtime, async move {
                let answer = pending.answer().await;
                drop(memory);
                settled(answer, record, &state)
            }))
        }
    }
}

/// The inbox has answered.
fn settled(answer: Answer, record: Record, state: &ServerState) -> Answer {
    let answer = contract::in_its_words(answer, &record.source().verifier.contract());
    record.close(&answer, &state.services);
    answer
}

/// The delivery does not get to the inbox.
fn refuse(refused: Refused, mut record: Record, request: &HttpRequest, state: &ServerState) -> Answer {
    let answer = contract::in_its_words(Answer::from(refused), &record.source().verifier.contract());
    if matches!(answer.outcome, Outcome::Unverified | Outcome::Malformed) {
        record.note_refused(request.headers());
    }
    record.close(&answer, &state.services);
    answer
}

/// Why a delivery does not get to the inbox.
pub(super) struct Refused {
    problem: Problem,
    outcome: Outcome,
    /// For the ledger.
    reason: Option<String>,
    /// Whether the sender may read the reason too.
    is_told: bool,
}

impl Refused {
    pub(super) fn malformed(problem: Problem) -> Self {
        Self { problem, outcome: Outcome::Malformed, reason: None, is_told: false }
    }

    pub(super) fn because(self, reason: String) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

impl From<BodyError> for Refused {
    fn from(error: BodyError) -> Self {
        let outcome = match error {
            BodyError::NoRoom => Outcome::Unavailable,
            _ => Outcome::Malformed,
        };
        Self { problem: error.problem(), outcome, reason: Some(error.to_string()), is_told: false }
    }
}

impl From<signature::Refusal> for Refused {
    fn from(refusal: signature::Refusal) -> Self {
        Self {
            problem: Problem::SignatureInvalid,
            outcome: Outcome::Unverified,
            reason: Some(refusal.to_string()),
            is_told: false,
        }
    }
}

impl From<EnvelopeError> for Refused {
    fn from(error: EnvelopeError) -> Self {
        let reason = Some(error.to_string());
        Self { problem: error.problem(), outcome: Outcome::Malformed, reason, is_told: true }
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        Self {
            outcome: refused.outcome,
            reply: match &refused.reason {
                Some(reason) if refused.is_told => refused.problem.reply_with(reason),
                _ => refused.problem.reply(),
            },
            replayed: false,
            retry_after_seconds: matches!(refused.outcome, Outcome::Unavailable).then_some(RETRY_SECONDS),
            events: Vec::new(),
            reason: refused.reason,
        }
    }
}

/// The answer to a path that leads to no source's `POST`.
pub(super) fn refuse_path(request: &HttpRequest, state: &ServerState, problem: Problem) -> HttpResponse {
    let arrival = Arrival::now(request, &state.services.clock);
    let answer = Answer::from(Refused::malformed(problem));
    record::unknown_source(&state.services.metrics, &arrival, answer.outcome);
    answer::to_delivery(&answer, arrival.id)
}
