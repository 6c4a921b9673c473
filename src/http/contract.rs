//! Answers in the words of the sender: what it takes for success, for refusal, and for "not again".
//!
//! Pure, and the only place where a sender's [`Contract`] changes an answer. A function of the answer
//! as it is stored, so that a repetition of a request gets the same bytes. A handler's own answer is
//! touched only where its sender would take a success for a failure and come again for ever.

use bytes::Bytes;

use crate::inbox::outcome::{Answer, Outcome};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::signature::Contract;

/// What is said of an event that is kept for a person: it need not be sent again. What was not kept
/// must be, whatever its sender could be told.
const KEPT_FOR_A_PERSON: [Problem; 2] = [Problem::EventRejected, Problem::EventTooOld];

/// The answer as the sender understands it.
pub(super) fn in_its_words(mut answer: Answer, contract: &Contract) -> Answer {
    if answer.outcome == Outcome::Unavailable && answer.retry_after_seconds.is_some() {
        answer.retry_after_seconds = Some(contract.retry_after_seconds);
    }
    if *contract == Contract::USUAL || answer.outcome == Outcome::Handshake {
        return answer;
    }
    let status = answer.reply.status;
    if answer.outcome == Outcome::Unverified {
        if status != contract.refusal {
            answer.reply = Problem::SignatureInvalid.reply_as(contract.refusal);
        }
    } else if let Some(problem) = kept_for_a_person(&answer.reply) {
        answer.reply = problem.reply_as(contract.rejection);
        if let Some((name, value)) = contract.stop_retrying {
            answer.reply.headers.push((name.into(), value.into()));
        }
    } else if let (true, Some(known)) = (is_unknown_success(status, contract), contract.success.first()) {
        answer.reply.status = *known;
    }
    if contract.bodiless {
        answer.reply.body = Bytes::new();
        answer.reply.headers.retain(|(name, _)| name != "content-type");
    }
    answer
}

/// Told by its bytes: a stored answer says nothing else of what became of its event.
fn kept_for_a_person(reply: &Reply) -> Option<Problem> {
    KEPT_FOR_A_PERSON
        .into_iter()
        .find(|problem| problem.status() == reply.status && problem.reply().body == reply.body)
}

fn is_unknown_success(status: u16, contract: &Contract) -> bool {
    (200..300).contains(&status) && !contract.is_success(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAILGUN: Contract = Contract { success: &[200], rejection: 406, ..Contract::USUAL };
    const SLACK: Contract = Contract { stop_retrying: Some(("x-slack-no-retry", "1")), ..Contract::USUAL };

    fn answer(outcome: Outcome, reply: Reply) -> Answer {
        Answer {
            outcome,
            reply,
            replayed: false,
            retry_after_seconds: None,
            events: Vec::new(),
            reason: None,
        }
    }

    fn own(status: u16) -> Reply {
        let headers = vec![("content-type".into(), "text/plain".into()), ("x-own".into(), "1".into())];
        Reply { status, headers, body: Bytes::from_static(b"own") }
    }

    #[test]
    fn an_event_kept_for_a_person_is_not_sent_again_and_says_so_each_time() {
        for problem in KEPT_FOR_A_PERSON {
            let first = in_its_words(answer(Outcome::Rejected, problem.reply()), &MAILGUN).reply;
            assert_eq!(first.status, 406);
            let body: serde_json::Value = serde_json::from_slice(&first.body).expect("JSON");
            assert_eq!(body["status"], 406);
            let again = in_its_words(answer(Outcome::Replayed, problem.reply()), &MAILGUN).reply;
            assert_eq!(again, first);
            let slack = in_its_words(answer(Outcome::Replayed, problem.reply()), &SLACK).reply;
            assert_eq!(slack.status, 422);
            assert!(slack.headers.contains(&("x-slack-no-retry".into(), "1".into())));
        }
    }

    #[test]
    fn what_was_not_kept_may_be_sent_again() {
        for (outcome, problem) in [
            (Outcome::Malformed, Problem::MalformedBody),
            (Outcome::Mismatch, Problem::IdempotencyKeyReused),
            (Outcome::Rejected, Problem::EventFailed),
            (Outcome::Unavailable, Problem::Unavailable),
            (Outcome::Unverified, Problem::SignatureInvalid),
        ] {
            for contract in [&MAILGUN, &SLACK, &Contract::USUAL] {
                assert_eq!(in_its_words(answer(outcome, problem.reply()), contract).reply, problem.reply());
            }
        }
    }

    #[test]
    fn a_success_that_the_sender_does_not_know_becomes_one_that_it_knows() {
        let reply = in_its_words(answer(Outcome::Applied, own(201)), &MAILGUN).reply;
        assert_eq!(reply, own(200));
        assert_eq!(in_its_words(answer(Outcome::Applied, own(201)), &SLACK).reply, own(201));
        for status in [302, 404, 422, 500] {
            assert_eq!(in_its_words(answer(Outcome::Applied, own(status)), &MAILGUN).reply, own(status));
        }
    }

    #[test]
    fn a_sender_that_wants_no_body_gets_none() {
        let contract = Contract { bodiless: true, ..Contract::USUAL };
        let reply = in_its_words(answer(Outcome::Applied, own(200)), &contract).reply;
        assert_eq!((reply.body.len(), reply.headers), (0, vec![("x-own".into(), "1".into())]));
        let refused = in_its_words(answer(Outcome::Unverified, Problem::SignatureInvalid.reply()), &contract);
        assert_eq!((refused.reply.status, refused.reply.body.len()), (401, 0));
    }

    #[test]
    fn a_refusal_has_the_status_that_the_sender_looks_for() {
        let contract = Contract { refusal: 403, ..Contract::USUAL };
        let refused = in_its_words(answer(Outcome::Unverified, Problem::SignatureInvalid.reply()), &contract);
        assert_eq!(refused.reply.status, 403);
    }

    #[test]
    fn only_who_is_told_to_come_again_is_told_when() {
        let contract = Contract { retry_after_seconds: 9, ..Contract::USUAL };
        let mut unavailable = answer(Outcome::Unavailable, Problem::Unavailable.reply());
        unavailable.retry_after_seconds = Some(1);
        assert_eq!(in_its_words(unavailable, &contract).retry_after_seconds, Some(9));
        let mut conflict = answer(Outcome::Conflict, Problem::RequestInProgress.reply());
        conflict.retry_after_seconds = Some(1);
        assert_eq!(in_its_words(conflict, &contract).retry_after_seconds, Some(1));
        let applied = answer(Outcome::Applied, own(200));
        assert_eq!(in_its_words(applied, &contract).retry_after_seconds, None);
    }
}
