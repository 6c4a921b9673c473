//! Kafka as a destination: one record an attempt, from an idempotent producer.
//!
//! The record's key is the aggregate id, so that one aggregate's messages stay in one partition, and in
//! order. The message's id stands in a header, the same on every attempt: the producer's idempotence ends
//! with the producer, the id does not.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use reqwest::header::HeaderMap;

use super::destination::{Answer, Destination, Meaning};
use super::labels::{MESSAGE_ID_HEADER, labels};
use super::route::Route;
use crate::broker::{BrokerSpec, root_cause};
use crate::store::outbox::Message;

const PORT: u16 = 9092;

/// Topics of a Kafka as they are configured.
#[derive(Clone)]
pub struct KafkaSpec {
    pub broker: BrokerSpec,
    pub topic: Route,
    /// From the start of an attempt to the brokers' acknowledgement.
    pub timeout: Duration,
    /// Sent with every message; values may be secrets.
    pub headers: HeaderMap,
}

impl std::fmt::Debug for KafkaSpec {
    /// Headers may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSpec").field("broker", &self.broker).finish_non_exhaustive()
    }
}

/// Topics that records are produced to.
pub struct KafkaDestination {
    spec: KafkaSpec,
    /// Made by the first attempt, and made anew after an error that ends it.
    producer: Mutex<Option<FutureProducer>>,
}

impl std::fmt::Debug for KafkaDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaDestination").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl KafkaDestination {
    pub(super) fn new(spec: &KafkaSpec) -> Self {
        Self { spec: spec.clone(), producer: Mutex::new(None) }
    }

    fn producer(&self) -> Result<FutureProducer, KafkaError> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = &*producer {
            return Ok(producer.clone());
        }
        let url = self.spec.broker.url.expose();
        let server = format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(PORT));
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let made: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", server)
            .set("client.id", "hooklatch-relay")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", milliseconds(self.spec.timeout))
            .set("socket.connection.setup.timeout.ms", milliseconds(self.spec.broker.connect_timeout))
            // The relay has the messages that wait; there is nothing to collect.
            .set("linger.ms", "0")
            .create()?;
        *producer = Some(made.clone());
        Ok(made)
    }

    fn headers(&self, message: &Message) -> Result<OwnedHeaders, String> {
        let mut headers = OwnedHeaders::new();
        let id = message.id.hyphenated().to_string();
        let own = [(MESSAGE_ID_HEADER, id.as_str()), ("content-type", message.content_type.as_str())];
        let labels = labels(message, &self.spec.headers)?;
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (key, value) in own.into_iter().chain(labels) {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        Ok(headers)
    }

    fn judge(&self, topic: &str, error: &KafkaError) -> Answer {
        let failed = Meaning::Failed { retry_after: None };
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessage) => {
                Answer::none(Meaning::Refused, root_cause(error))
            }
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Answer::none(failed, format!("there is no topic {topic:?}: create it"))
            }
            Some(RDKafkaErrorCode::QueueFull) => {
                Answer::none(Meaning::Throttled { retry_after: None }, root_cause(error))
            }
            Some(RDKafkaErrorCode::MessageTimedOut) => Answer::none(
                failed,
                format!("was not acknowledged within {} s", self.spec.timeout.as_secs_f32()),
            ),
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::PurgeQueue) => {
                // The producer takes nothing any more; the next attempt makes another.
                *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Answer::none(failed, root_cause(error))
            }
            _ => Answer::none(failed, root_cause(error)),
        }
    }
}

#[async_trait]
impl Destination for KafkaDestination {
    async fn deliver(&self, message: &Message, _now: DateTime<Utc>) -> Answer {
        let ready = self.spec.topic.of(message).and_then(|topic| Ok((topic, self.headers(message)?)));
        let (topic, headers) = match ready {
            Ok(ready) => ready,
            Err(reason) => return Answer::none(Meaning::Refused, reason),
        };
        let producer = match self.producer() {
            Ok(producer) => producer,
            Err(error) => return self.judge(&topic, &error),
        };
        let mut record = FutureRecord::<str, [u8]>::to(&topic).payload(&message.payload[..]).headers(headers);
        if let Some(aggregate) = &message.aggregate_id {
            record = record.key(aggregate);
        }
        match producer.send(record, Timeout::After(self.spec.timeout)).await {
            Ok(_place) => Answer {
                meaning: Meaning::Accepted,
                status: None,
                error: None,
                body: bytes::Bytes::new(),
                body_bytes: 0,
            },
            Err((error, _record)) => self.judge(&topic, &error),
        }
    }
}
