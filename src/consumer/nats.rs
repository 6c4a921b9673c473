//! A NATS `JetStream` consumer as a source.
//!
//! The stream must be there; the durable consumer is made if it is not, and taken as it is if it is.
//! Messages that are being worked on are kept from coming again, for as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::pull::{self, Stream};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::message::AckKind;
use async_nats::jetstream::{self};
use async_trait::async_trait;
use futures_util::StreamExt as _;

use super::QueueSpec;
use super::queue::{Queue, Receipt, Subscription, Taken};
use crate::broker::{BrokerSpec, nats, root_cause};
use crate::event::RawRequest;
use crate::outbox::labels::EVENT_TYPE_HEADER;
use crate::raw_headers::RawHeaders;

/// After so long without a word a message comes again, to whoever asks.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// How often that word is given.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// A durable consumer of a stream.
pub(super) struct NatsQueue {
    broker: BrokerSpec,
    stream: String,
    durable: String,
    prefetch: u16,
    purpose: String,
}

impl NatsQueue {
    pub(super) fn new(spec: &QueueSpec) -> Self {
        Self {
            broker: spec.broker.clone(),
            stream: spec.stream.clone().unwrap_or_default(),
            durable: spec.queue.clone(),
            prefetch: spec.prefetch,
            purpose: format!("hooklatch source {}", spec.source),
        }
    }

    async fn subscribe(&self) -> Result<NatsSubscription, String> {
        let client = nats::connect(&self.broker, &self.purpose).await?;
        let context = nats::jetstream(client.clone(), self.broker.connect_timeout);
        let stream = context
            .get_stream(&self.stream)
            .await
            .map_err(|error| format!("the stream {:?}: {}", self.stream, root_cause(&error)))?;
        let wanted = pull::Config {
            durable_name: Some(self.durable.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: i64::from(self.prefetch),
            ..pull::Config::default()
        };
        let consumer: PullConsumer = stream
            .get_or_create_consumer(&self.durable, wanted)
            .await
            .map_err(|error| format!("the consumer {:?}: {}", self.durable, root_cause(&error)))?;
        if consumer.cached_info().config.ack_policy != AckPolicy::Explicit {
            return Err(format!(
                "the consumer {:?} does not wait for acknowledgements; make it anew with ack policy explicit",
                self.durable
            ));
        }
        let messages = consumer
            .stream()
            .max_messages_per_batch(usize::from(self.prefetch))
            .messages()
            .await
            .map_err(|error| root_cause(&error))?;
        Ok(NatsSubscription { client, messages: Some(messages) })
    }

    async fn look(&self) -> Result<String, String> {
        let client = nats::connect(&self.broker, &self.purpose).await?;
        let context = nats::jetstream(client, self.broker.connect_timeout);
        let stream = context
            .get_stream(&self.stream)
            .await
            .map_err(|error| format!("the stream {:?}: {}", self.stream, root_cause(&error)))?;
        match stream.get_consumer::<pull::Config>(&self.durable).await {
            Ok(consumer) => Ok(format!("{} messages wait", consumer.cached_info().num_pending)),
            Err(_) => Ok(format!("the stream is there; the consumer {:?} will be made", self.durable)),
        }
    }
}

#[async_trait]
impl Queue for NatsQueue {
    async fn open(&self) -> Result<Box<dyn Subscription>, String> {
        match tokio::time::timeout(self.broker.connect_timeout, self.subscribe()).await {
            Ok(subscribed) => Ok(Box::new(subscribed?)),
            Err(_) => Err("NATS did not answer in time".to_owned()),
        }
    }

    async fn probe(&self) -> Result<String, String> {
        match tokio::time::timeout(self.broker.connect_timeout, self.look()).await {
            Ok(found) => found,
            Err(_) => Err("NATS did not answer in time".to_owned()),
        }
    }
}

struct NatsSubscription {
    client: Client,
    /// `None` once no more is asked for.
    messages: Option<Stream>,
}

#[async_trait]
impl Subscription for NatsSubscription {
    async fn next(&mut self) -> Result<Taken, String> {
        let Some(messages) = &mut self.messages else { return std::future::pending().await };
        match messages.next().await {
            Some(Ok(message)) => {
                let (message, acker) = message.split();
                Ok(Taken {
                    request: RawRequest {
                        target: Arc::from(format!("nats:{}", message.subject)),
                        headers: headers(&message),
                        body: message.payload,
                    },
                    receipt: Box::new(NatsReceipt(acker)),
                })
            }
            Some(Err(error)) => Err(root_cause(&error)),
            None => Err("NATS hands out no more".to_owned()),
        }
    }

    async fn stop(&mut self) {
        self.messages = None;
    }

    async fn close(self: Box<Self>) {
        // Acknowledgements may still be on their way out.
        if let Err(error) = self.client.flush().await {
            tracing::debug!(%error, "NATS may not have heard the last acknowledgements");
        }
    }
}

struct NatsReceipt(jetstream::message::Acker);

#[async_trait]
impl Receipt for NatsReceipt {
    async fn acknowledge(self: Box<Self>) -> Result<(), String> {
        self.0.ack().await.map_err(|error| error.to_string())
    }

    fn keep_every(&self) -> Option<Duration> {
        Some(KEEP_EVERY)
    }

    async fn keep(&self) {
        if let Err(error) = self.0.ack_with(AckKind::Progress).await {
            tracing::debug!(error, "NATS could not be told that a message is being worked on");
        }
    }
}

/// The id first: a header of the same name is left out. Of several values of one header the first counts.
fn headers(message: &async_nats::Message) -> RawHeaders {
    let mut headers = RawHeaders::new();
    headers.push("subject", message.subject.as_str());
    let Some(theirs) = &message.headers else { return headers };
    for (ours, value) in
        [("message-id", theirs.get(NATS_MESSAGE_ID)), ("message-type", theirs.get(EVENT_TYPE_HEADER))]
    {
        if let Some(value) = value {
            headers.push(ours, value.as_str());
        }
    }
    for (name, values) in theirs.iter() {
        let name = name.to_string().to_ascii_lowercase();
        if let Some(value) = values.first()
            && !headers.contains(&name)
        {
            headers.push(name, value.as_str());
        }
    }
    headers
}
