//! Where messages go: one trait, chosen by the scheme of the URL.
//!
//! A destination makes one attempt and reports what came back; it keeps no message and decides
//! nothing about the next attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};

#[cfg(feature = "amqp")]
use super::amqp::{AmqpDestination, AmqpSpec};
use super::backoff::Backoff;
use super::breaker::BreakerRule;
use super::http::{HttpDestination, HttpSpec};
#[cfg(feature = "kafka")]
use super::kafka::{KafkaDestination, KafkaSpec};
#[cfg(feature = "nats")]
use super::nats::{NatsDestination, NatsSpec};
use crate::store::outbox::Message;

/// Delivers messages to one place.
#[async_trait]
pub trait Destination: Send + Sync + 'static {
    /// Makes one attempt. `now`: what a signature says it was made at.
    async fn deliver(&self, message: &Message, now: DateTime<Utc>) -> Answer;

    /// Whether it can be reached, without sending anything: how far that went, or why not and the way
    /// out. `None`: there is no way to tell.
    async fn probe(&self) -> Option<Result<String, String>> {
        None
    }
}

/// What came back from an attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub meaning: Meaning,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Why it is no success; `None` when it is one.
    pub error: Option<String>,
    /// The first bytes of the answer.
    pub body: Bytes,
    /// How long the answer was, as far as it was read.
    pub body_bytes: u64,
}

impl Answer {
    /// An attempt that got no answer.
    #[must_use]
    pub fn none(meaning: Meaning, error: impl Into<String>) -> Self {
        Self { meaning, status: None, error: Some(error.into()), body: Bytes::new(), body_bytes: 0 }
    }
}

impl fmt::Debug for Answer {
    /// Bodies never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({:?}, {:?}, {} bytes)", self.meaning, self.status, self.body_bytes)
    }
}

/// What an answer means for the message and for its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The message has arrived.
    Accepted,
    /// It may arrive later; not before `retry_after`, if the destination said so.
    Failed { retry_after: Option<Duration> },
    /// Too much at a time: the message and all others wait.
    Throttled { retry_after: Option<Duration> },
    /// This message will never be taken.
    Refused,
    /// Nothing is taken there any more: the destination is paused.
    Gone,
}

impl Meaning {
    /// The `result` label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "sent",
            Self::Failed { .. } => "failed",
            Self::Throttled { .. } => "throttled",
            Self::Refused => "refused",
            Self::Gone => "gone",
        }
    }
}

/// A destination as it is configured.
#[derive(Clone, Debug)]
pub struct DestinationSpec {
    pub name: Arc<str>,
    pub policy: Policy,
    pub transport: Transport,
}

/// How a destination is reached.
#[derive(Clone, Debug)]
pub enum Transport {
    Http(HttpSpec),
    #[cfg(feature = "amqp")]
    Amqp(AmqpSpec),
    #[cfg(feature = "kafka")]
    Kafka(KafkaSpec),
    #[cfg(feature = "nats")]
    Nats(NatsSpec),
}

/// What becomes of a message that a broker has no queue for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unroutable {
    /// A failure like another: somebody may yet bind a queue.
    #[default]
    Retry,
    /// It is given up at once.
    DeadLetter,
}

/// How messages to a destination are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Messages on their way at a time, from one process.
    pub concurrency: usize,
    /// Messages a second from one process; `None`: no limit.
    pub rate_per_second: Option<u32>,
    /// A message that has failed so often is given up …
    pub max_attempts: u32,
    /// … or one that fails when it is this old.
    pub max_age: Duration,
    pub backoff: Backoff,
    pub breaker: BreakerRule,
    pub on_poison: OnPoison,
}

/// What happens to the later messages of an aggregate whose first is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnPoison {
    /// They wait until a person retries or discards it.
    #[default]
    Block,
    /// It becomes a dead letter and they go on.
    DeadLetter,
}

/// Opens what delivers to a destination.
///
/// # Errors
/// When its client cannot be made.
pub fn open(spec: &DestinationSpec) -> Result<Arc<dyn Destination>, OpenError> {
    match &spec.transport {
        Transport::Http(http) => Ok(Arc::new(HttpDestination::new(http, spec.policy.concurrency)?)),
        #[cfg(feature = "amqp")]
        Transport::Amqp(amqp) => Ok(Arc::new(AmqpDestination::new(amqp, spec.policy.concurrency))),
        #[cfg(feature = "kafka")]
        Transport::Kafka(kafka) => Ok(Arc::new(KafkaDestination::new(kafka))),
        #[cfg(feature = "nats")]
        Transport::Nats(nats) => Ok(Arc::new(NatsDestination::new(nats))),
    }
}

/// Why a destination cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot make an HTTP client")]
pub struct OpenError(#[from] reqwest::Error);
