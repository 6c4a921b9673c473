//! Each event whole or not at all, for handlers that run over many events at once.
//!
//! Runs events in chunks, each in a savepoint. A chunk that fails is undone and run again in
//! halves, until the event that fails stands alone: it is reported, and takes no other with it.
//! Events keep their order. What no smaller chunk can cure (a lost connection, a deadlock) ends the
//! whole batch.
//!
//! Knows neither SQL nor a dialect: a store lends its savepoints and runs the steps.

use async_trait::async_trait;

use super::handler_answer::Mistake;
use super::{FreshEvent, HandlerResult, StoreError, StoreErrorKind};
use crate::event::EventKey;
use crate::handler::{HandlerError, HandlerReply};

/// The answers that the steps gave, for any of the events; the last one of an event counts.
pub(super) type Replies = Vec<(EventKey, HandlerReply)>;

/// An open transaction that can undo a part of itself, and the steps to run in it.
#[async_trait]
pub(super) trait Savepoints: Send {
    async fn savepoint(&mut self) -> Result<(), StoreError>;
    /// Undoes what happened since the savepoint, and ends it.
    async fn undo(&mut self) -> Result<(), StoreError>;
    /// Keeps what happened since the savepoint, and ends it.
    async fn keep(&mut self) -> Result<(), StoreError>;
    /// Runs every step, in order, over these events.
    async fn apply(&mut self, events: &[FreshEvent<'_>]) -> Result<Replies, Failure>;
}

/// Why a chunk failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// One of its events. `permanent`: that event will never succeed.
    Event { permanent: bool, reason: String },
    /// The transaction cannot go on.
    Batch(StoreError),
}

impl Failure {
    /// Sorts a handler's error; `classify` is the dialect's.
    pub(super) fn of_handler(error: HandlerError, classify: impl FnOnce(sqlx::Error) -> StoreError) -> Self {
        match error {
            HandlerError::Permanent(reason) => Self::Event { permanent: true, reason: reason.into_owned() },
            HandlerError::Transient(reason) => Self::Event { permanent: false, reason: reason.into_owned() },
            HandlerError::Database(error) => classify(error).into(),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let permanent = match error.kind {
            StoreErrorKind::Data => true,
            StoreErrorKind::Statement => false,
            StoreErrorKind::Contention
            | StoreErrorKind::LockTimeout
            | StoreErrorKind::StatementTimeout
            | StoreErrorKind::Unavailable
            | StoreErrorKind::Schema => return Self::Batch(error),
        };
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Self::Event { permanent, reason }
    }
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Self::Event { permanent: false, reason: mistake.into_reason() }
    }
}

/// Applies all events outside any savepoint, in the belief that none fails. `None`: one did, and the
/// transaction is of no more use.
///
/// # Errors
/// When the transaction cannot go on for another reason.
pub(super) async fn apply_all(
    transaction: &mut dyn Savepoints,
    events: &[FreshEvent<'_>],
) -> Result<Option<Vec<HandlerResult>>, StoreError> {
    match transaction.apply(events).await.and_then(|replies| answers(events, replies)) {
        Ok(replies) => Ok(Some(replies.into_iter().map(HandlerResult::Applied).collect())),
        Err(Failure::Event { .. }) => Ok(None),
        Err(Failure::Batch(error)) => Err(error),
    }
}

/// Applies events, each whole or not at all; results stand in the order of `events`.
///
/// # Errors
/// When the transaction cannot go on.
pub(super) async fn apply_each(
    transaction: &mut dyn Savepoints,
    events: &[FreshEvent<'_>],
    chunk: usize,
) -> Result<Vec<HandlerResult>, StoreError> {
    let chunk = chunk.max(1);
    let mut results = Vec::with_capacity(events.len());
    // Ranges still to run, the next one last: halves go where their whole was.
    let mut waiting: Vec<_> = (0..events.len())
        .step_by(chunk)
        .map(|start| start..(start + chunk).min(events.len()))
        .rev()
        .collect();
    while let Some(range) = waiting.pop() {
        let part = &events[range.clone()];
        transaction.savepoint().await?;
        match transaction.apply(part).await.and_then(|replies| answers(part, replies)) {
            Ok(replies) => {
                transaction.keep().await?;
                results.extend(replies.into_iter().map(HandlerResult::Applied));
            }
            Err(Failure::Event { permanent, reason }) => {
                transaction.undo().await?;
                if part.len() == 1 {
                    results.push(HandlerResult::Failed { permanent, reason });
                } else {
                    let middle = range.start + part.len() / 2;
                    waiting.push(middle..range.end);
                    waiting.push(range.start..middle);
                }
            }
            Err(Failure::Batch(error)) => return Err(error),
        }
    }
    Ok(results)
}

/// Gives each event its answer. An answer for an event that was not there is a mistake of the
/// handler that would otherwise pass unseen.
fn answers(events: &[FreshEvent<'_>], replies: Replies) -> Result<Vec<Option<HandlerReply>>, Failure> {
    let mut answers = vec![None; events.len()];
    if replies.is_empty() {
        return Ok(answers);
    }
    let places: std::collections::HashMap<&EventKey, usize> =
        events.iter().enumerate().map(|(place, fresh)| (&fresh.event.key, place)).collect();
    for (key, reply) in replies {
        let Some(&place) = places.get(&key) else {
            return Err(Mistake::stranger(&key.event_id).into());
        };
        answers[place] = Some(reply);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::event::{Delivery, Event, JsonText, RawRequest};
    use crate::raw_headers::RawHeaders;
    use crate::signature::{Verifier, VerifyConfig};
    use crate::source::Source;

    /// A transaction over a list of event ids, with the ids that fail.
    #[derive(Default)]
    struct Applied {
        kept: Vec<Arc<str>>,
        open: Option<usize>,
        calls: usize,
        refuses: Vec<&'static str>,
        breaks_at: Option<&'static str>,
    }

    #[async_trait]
    impl Savepoints for Applied {
        async fn savepoint(&mut self) -> Result<(), StoreError> {
            assert_eq!(self.open.replace(self.kept.len()), None, "savepoints do not nest");
            Ok(())
        }

        async fn undo(&mut self) -> Result<(), StoreError> {
            self.kept.truncate(self.open.take().expect("a savepoint"));
            Ok(())
        }

        async fn keep(&mut self) -> Result<(), StoreError> {
            self.open.take().expect("a savepoint");
            Ok(())
        }

        async fn apply(&mut self, events: &[FreshEvent<'_>]) -> Result<Replies, Failure> {
            self.calls += 1;
            for fresh in events {
                let id = &fresh.event.key.event_id;
                if self.breaks_at == Some(&**id) {
                    let error = StoreError::new(StoreErrorKind::Contention, "run a handler", "deadlock");
                    return Err(error.into());
                }
                self.kept.push(id.clone());
                if self.refuses.contains(&&**id) {
                    return Err(Failure::Event { permanent: true, reason: id.to_string() });
                }
            }
            Ok(Vec::new())
        }
    }

    fn delivery(ids: &[&str]) -> Delivery {
        let none = VerifyConfig { scheme: "none".into(), ..VerifyConfig::default() };
        let source = Arc::new(Source {
            name: "shop".into(),
            consumer: "shop".into(),
            intake: Default::default(),
            verifier: Verifier::new(&none, Vec::new()).expect("a scheme"),
            envelope: Default::default(),
            key_policy: Default::default(),
            replay_errors: Default::default(),
            replay_guard: Default::default(),
            success_status: 200,
            handlers: Vec::new(),
        });
        let json = JsonText::parse(Bytes::from_static(b"{}")).expect("JSON");
        let events = ids.iter().map(|id| Event {
            key: EventKey { consumer: "shop".into(), event_id: (*id).into() },
            event_type: "t".into(),
            occurred_at: None,
            payload: json.clone(),
            data: json.clone(),
            order: None,
        });
        Delivery {
            id: uuid::Uuid::nil(),
            events: events.collect(),
            source,
            is_batch: true,
            explicit_key: None,
            guard: None,
            request: RawRequest {
                target: "/hooks/shop".into(),
                headers: RawHeaders::new(),
                body: Bytes::new(),
            },
            received_at: chrono::DateTime::UNIX_EPOCH,
        }
    }

    async fn run(
        transaction: &mut Applied,
        ids: &[&str],
        chunk: usize,
    ) -> Result<Vec<HandlerResult>, StoreError> {
        let delivery = delivery(ids);
        let fresh: Vec<_> =
            delivery.events.iter().map(|event| FreshEvent { event, delivery: &delivery }).collect();
        apply_each(transaction, &fresh, chunk).await
    }

    const IDS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

    #[tokio::test]
    async fn the_poison_event_takes_no_other_with_it_wherever_it_stands() {
        for (place, poison) in IDS.iter().enumerate() {
            for chunk in 0..=8 {
                let mut transaction = Applied { refuses: vec![poison], ..Applied::default() };
                let results = run(&mut transaction, &IDS, chunk).await.expect("no batch failure");
                assert_eq!(results.len(), IDS.len());
                for (at, result) in results.iter().enumerate() {
                    match result {
                        HandlerResult::Applied(None) => assert_ne!(at, place),
                        HandlerResult::Failed { permanent: true, reason } => {
                            assert_eq!((at, reason.as_str()), (place, *poison));
                        }
                        other => panic!("{other:?}"),
                    }
                }
                let kept: Vec<&str> = transaction.kept.iter().map(|id| &**id).collect();
                let rest: Vec<&str> = IDS.into_iter().filter(|id| id != poison).collect();
                assert_eq!(kept, rest, "in order, without the poison");
                assert_eq!(transaction.open, None);
            }
        }
    }

    #[tokio::test]
    async fn without_poison_a_chunk_is_one_call() {
        let mut transaction = Applied::default();
        run(&mut transaction, &IDS, 4).await.expect("no failure");
        assert_eq!(transaction.calls, 2);
    }

    #[tokio::test]
    async fn every_event_may_be_poison() {
        let mut transaction = Applied { refuses: IDS.to_vec(), ..Applied::default() };
        let results = run(&mut transaction, &IDS, 4).await.expect("no batch failure");
        assert!(results.iter().all(|r| matches!(r, HandlerResult::Failed { permanent: true, .. })));
        assert!(transaction.kept.is_empty());
    }

    #[tokio::test]
    async fn what_no_smaller_chunk_can_cure_ends_the_batch() {
        let mut transaction = Applied { breaks_at: Some("c"), ..Applied::default() };
        let error = run(&mut transaction, &IDS, 4).await.expect_err("ends");
        assert_eq!(error.kind, StoreErrorKind::Contention);
        assert_eq!(transaction.calls, 1);
    }

    #[test]
    fn an_answer_for_an_event_that_was_not_there_is_a_failure() {
        let delivery = delivery(&["a"]);
        let fresh = [FreshEvent { event: &delivery.events[0], delivery: &delivery }];
        let stranger = EventKey { consumer: "shop".into(), event_id: "x".into() };
        let failure = answers(&fresh, vec![(stranger, HandlerReply::default())]).expect_err("refused");
        assert!(matches!(failure, Failure::Event { permanent: false, reason } if reason.contains("\"x\"")));
    }
}
