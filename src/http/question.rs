//! `GET` and `OPTIONS` on `/hooks/{source}`: a sender asks whether the address is ours.
//!
//! Only the methods in which the source's sender asks lead here, the others are 405. No question is
//! an event. One that is answered is `handshake`, one whose token is wrong is `unverified`; both are
//! counted and stand in the ledger.

use std::sync::Arc;

use actix_web::http::header::HeaderValue;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;

use crate::event::RawRequest;
use crate::http::arrival::{Arrival, raw_request};
use crate::http::ingest::{METHOD, Refused, refuse_path};
use crate::http::record::Record;
use crate::http::state::ServerState;
use crate::http::{answer, contract};
use crate::inbox::outcome::{Answer, Outcome};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::source::Source;

/// The ledger's word on a question that its sender could not prove.
const WRONG_TOKEN: &str = "the question shows another token than the one in verify.handshake_token";

/// Everything the path leads to but `POST`.
pub(super) async fn ask(
    request: HttpRequest,
    payload: Payload,
    name: &str,
    state: Data<ServerState>,
) -> HttpResponse {
    let source = state.sources.find(name);
    let methods = source.as_ref().map_or(&[][..], |source| source.verifier.handshake_kind().methods());
    let response = match source {
        Some(source) if methods.contains(&request.method().as_str()) => reply(&request, &source, &state),
        _ => {
            let allowed = [&[METHOD], methods].concat().join(", ");
            let response = refuse_path(&request, &state, Problem::MethodNotAllowed);
            answer::allowing(response, HeaderValue::try_from(allowed).expect("methods are tokens"))
        }
    };
    answer::unread(response, &request, payload).await
}

/// The answer to a question, be it asked in this way or as a signed delivery.
pub(super) fn answered(reply: Reply) -> Answer {
    Answer {
        outcome: Outcome::Handshake,
        reply,
        replayed: false,
        retry_after_seconds: None,
        events: Vec::new(),
        reason: None,
    }
}

fn reply(request: &HttpRequest, source: &Arc<Source>, state: &ServerState) -> HttpResponse {
    let mut record = Record::open(Arrival::now(request, &state.services.clock), Arc::clone(source));
    let raw = raw_request(request, Bytes::new());
    let answer = question(request, source, &raw, &record);
    let answer = contract::in_its_words(answer, &source.verifier.contract());
    if answer.outcome != Outcome::Handshake {
        record.note_refused(request.headers());
    }
    let response = answer::to_delivery(&answer, record.arrival().id);
    record.close(&answer, &state.services);
    response
}

fn question(request: &HttpRequest, source: &Source, raw: &RawRequest, record: &Record) -> Answer {
    let arrival = record.arrival();
    if let Err(refusal) = source.verifier.check_address(arrival.peer_address(), raw) {
        return Refused::from(refusal).into();
    }
    match source.verifier.handshake(request.method().as_str(), raw, arrival.at) {
        Some(reply) if reply.status < 400 => answered(reply),
        Some(reply) => {
            Answer { outcome: Outcome::Unverified, reason: Some(WRONG_TOKEN.into()), ..answered(reply) }
        }
        None => {
            let asks = source.verifier.handshake_kind().asks();
            let reason = format!("a {} that is not the question this sender asks: {asks}", request.method());
            Refused::malformed(Problem::MalformedRequest).because(reason).into()
        }
    }
}
