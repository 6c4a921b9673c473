//! NATS `JetStream` as a destination: one message an attempt, stored in a stream before it counts.
//!
//! The message's id is `Nats-Msg-Id` on every attempt, so that the stream itself drops a repetition
//! within its duplicate window. A subject that no stream takes is a failure of that message alone.

use std::str::FromStr as _;
use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::destination::{Answer, Destination, Meaning, Unroutable};
use super::labels::labels;
use super::route::Route;
use crate::broker::{BrokerSpec, nats, root_cause};
use crate::store::outbox::Message;

/// NATS' status for a request that nobody answers: here, a subject that no stream takes.
const NO_RESPONDERS: u16 = 503;

/// A subject of a NATS as it is configured.
#[derive(Clone)]
pub struct NatsSpec {
    pub broker: BrokerSpec,
    pub subject: Route,
    /// From the start of an attempt to the stream's acknowledgement.
    pub timeout: Duration,
    /// Sent with every message; values may be secrets.
    pub headers: reqwest::header::HeaderMap,
    pub unroutable: Unroutable,
}

impl std::fmt::Debug for NatsSpec {
    /// Headers may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsSpec").field("broker", &self.broker).finish_non_exhaustive()
    }
}

/// Subjects that messages are published to.
pub struct NatsDestination {
    spec: NatsSpec,
    /// Held while connecting, so that all attempts share one connection.
    link: Mutex<Link>,
}

impl std::fmt::Debug for NatsDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsDestination").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// The connection, or why there is none.
enum Link {
    Never,
    Open(Context),
    /// What the last attempt to connect met, and when it was over.
    Failed(String, Instant),
}

impl NatsDestination {
    pub(super) fn new(spec: &NatsSpec) -> Self {
        Self { spec: spec.clone(), link: Mutex::new(Link::Never) }
    }

    /// Attempts that waited while another one could not connect share its failure.
    async fn stream(&self, started: Instant) -> Result<Context, String> {
        let mut link = self.link.lock().await;
        match &*link {
            Link::Open(context) if nats::is_connected(&context.client()) => return Ok(context.clone()),
            // It connects again by itself.
            Link::Open(_) => return Err("the connection is lost".to_owned()),
            Link::Failed(reason, at) if *at >= started => return Err(reason.clone()),
            Link::Failed(..) | Link::Never => {}
        }
        match nats::connect(&self.spec.broker, "hooklatch relay").await {
            Ok(client) => {
                let context = nats::jetstream(client, self.spec.timeout);
                *link = Link::Open(context.clone());
                Ok(context)
            }
            Err(reason) => {
                *link = Link::Failed(reason.clone(), Instant::now());
                Err(reason)
            }
        }
    }

    fn headers(&self, message: &Message) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            let unfit = || format!("the header `{name}` has a name or value that NATS does not allow");
            let header = HeaderName::from_str(name).map_err(|_| unfit())?;
            headers.insert(header, HeaderValue::from_str(value).map_err(|_| unfit())?);
            Ok::<_, String>(())
        };
        for (name, value) in labels(message, &self.spec.headers)? {
            set(&name, &value)?;
        }
        set("content-type", &message.content_type)?;
        headers.insert(NATS_MESSAGE_ID, message.id.hyphenated().to_string());
        Ok(headers)
    }

    async fn attempt(&self, message: &Message, subject: String, headers: HeaderMap) -> Answer {
        let published = async {
            let context = self.stream(Instant::now()).await.map_err(failed)?;
            let judge = |error| self.judge(&subject, &error);
            let stored =
                context.publish_with_headers(subject.clone(), headers, message.payload.clone()).await;
            stored.map_err(judge)?.await.map_err(judge)
        };
        match tokio::time::timeout(self.spec.timeout, published).await {
            Ok(Ok(_stored)) => Answer {
                meaning: Meaning::Accepted,
                status: None,
                error: None,
                body: bytes::Bytes::new(),
                body_bytes: 0,
            },
            Ok(Err(answer)) => answer,
            Err(_) => failed(format!("no stream confirmed it within {} s", self.spec.timeout.as_secs_f32())),
        }
    }

    fn judge(&self, subject: &str, error: &PublishError) -> Answer {
        let again = Meaning::Failed { retry_after: None };
        match error.kind() {
            PublishErrorKind::StreamNotFound => {
                let meaning = match self.spec.unroutable {
                    Unroutable::Retry => again,
                    Unroutable::DeadLetter => Meaning::Refused,
                };
                let error = format!("no stream takes the subject {subject:?}: add it to a stream's subjects");
                Answer { status: Some(NO_RESPONDERS), ..Answer::none(meaning, error) }
            }
            PublishErrorKind::MaxPayloadExceeded => {
                Answer::none(Meaning::Refused, "it is larger than the server's max_payload")
            }
            PublishErrorKind::MaxAckPending => Answer::none(
                Meaning::Throttled { retry_after: None },
                "too many messages wait for the streams' confirmation",
            ),
            PublishErrorKind::TimedOut => failed("no stream confirmed it in time".to_owned()),
            // A stream that is full says so here, too.
            PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::WrongLastSequence
            | PublishErrorKind::BrokenPipe
            | PublishErrorKind::Other => failed(root_cause(error)),
        }
    }
}

#[async_trait]
impl Destination for NatsDestination {
    async fn deliver(&self, message: &Message, _now: DateTime<Utc>) -> Answer {
        let ready = self.spec.subject.of(message).and_then(|subject| {
            check_subject(&subject)?;
            Ok((subject, self.headers(message)?))
        });
        match ready {
            Ok((subject, headers)) => self.attempt(message, subject, headers).await,
            Err(reason) => Answer::none(Meaning::Refused, reason),
        }
    }
}

/// A subject that messages can be published to: no blanks, no wildcards, no empty part.
fn check_subject(subject: &str) -> Result<(), String> {
    let is_fit = subject.split('.').all(|part| {
        !part.is_empty()
            && !part.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '>'))
    });
    if is_fit { Ok(()) } else { Err(format!("{subject:?} is no subject that NATS can publish to")) }
}

fn failed(reason: String) -> Answer {
    Answer::none(Meaning::Failed { retry_after: None }, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_neither_blanks_nor_wildcards_nor_empty_parts() {
        for subject in ["orders", "orders.paid.7", "a-b.c_d"] {
            assert!(check_subject(subject).is_ok(), "{subject}");
        }
        for subject in ["", ".", "a..b", "a.", "a b", "a.*", "a.>", "a\nb"] {
            assert!(check_subject(subject).is_err(), "{subject}");
        }
    }
}
