//! RabbitMQ as a destination: one persistent message an attempt, on one channel, with publisher confirms.
//!
//! An attempt has succeeded when RabbitMQ has confirmed the message *and* routed it to a queue: every
//! message is mandatory, and one that comes back is a failure of that message alone. The body goes out
//! byte for byte as it was written, under the message's id as `message_id` on every attempt.
//!
//! The connection is made by the first attempt that needs one, and made anew after it was lost; how
//! often that is tried is the relay's matter, as with any failure.

mod publisher;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use lapin::options::ConfirmSelectOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection};
use reqwest::header::HeaderMap;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use self::publisher::{Confirmed, Publish, Publisher};
use super::destination::{Answer, Destination, Meaning};
use super::labels::labels;
use super::route::Route;
use crate::broker::{BrokerSpec, amqp};
use crate::store::outbox::Message;

/// `delivery_mode`: written to disk before it is confirmed, in a durable queue.
const PERSISTENT: u8 = 2;
/// How connections and messages name their maker.
const APP_ID: &str = "hooklatch";
/// RabbitMQ's reply code for a message that no queue takes.
const NO_ROUTE: u16 = 312;

/// A RabbitMQ exchange as it is configured.
#[derive(Clone)]
pub struct AmqpSpec {
    pub broker: BrokerSpec,
    /// Empty: the default exchange, whose routing keys are names of queues.
    pub exchange: String,
    pub routing_key: Route,
    /// From the start of an attempt to the confirmation.
    pub timeout: Duration,
    /// Sent with every message; values may be secrets.
    pub headers: HeaderMap,
    pub unroutable: Unroutable,
}

impl std::fmt::Debug for AmqpSpec {
    /// Headers may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AmqpSpec").field("broker", &self.broker).finish_non_exhaustive()
    }
}

pub use super::destination::Unroutable;

/// An exchange that messages are published to.
pub struct AmqpDestination {
    spec: AmqpSpec,
    concurrency: usize,
    /// Held while connecting, so that all attempts share one connection.
    link: Mutex<Link>,
}

impl std::fmt::Debug for AmqpDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AmqpDestination").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// The connection, or why there is none.
enum Link {
    Never,
    Open(Line),
    /// What the last attempt to connect met, and when it was over.
    Failed(String, Instant),
}

/// An open channel and the task that publishes on it.
#[derive(Clone)]
struct Line {
    connection: std::sync::Arc<Connection>,
    channel: Channel,
    requests: mpsc::Sender<Publish>,
}

impl Line {
    fn is_open(&self) -> bool {
        self.connection.status().connected()
            && self.channel.status().connected()
            && !self.requests.is_closed()
    }

    /// RabbitMQ takes nothing for now: it is short of memory or of disk.
    fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }
}

impl AmqpDestination {
    pub(super) fn new(spec: &AmqpSpec, concurrency: usize) -> Self {
        Self { spec: spec.clone(), concurrency, link: Mutex::new(Link::Never) }
    }

    /// The open connection, or a new one. Attempts that waited while another one could not connect share
    /// its failure: a broker that is away is asked once, not once a message.
    async fn line(&self, started: Instant) -> Result<Line, String> {
        let mut link = self.link.lock().await;
        match &*link {
            Link::Open(line) if line.is_open() => return Ok(line.clone()),
            Link::Failed(reason, at) if *at >= started => return Err(reason.clone()),
            Link::Open(_) | Link::Failed(..) | Link::Never => {}
        }
        match self.connect().await {
            Ok(line) => {
                *link = Link::Open(line.clone());
                Ok(line)
            }
            Err(reason) => {
                *link = Link::Failed(reason.clone(), Instant::now());
                Err(reason)
            }
        }
    }

    async fn connect(&self) -> Result<Line, String> {
        let connection = amqp::connect(&self.spec.broker, "hooklatch relay").await?;
        let opened = async {
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok::<_, lapin::Error>(channel)
        };
        let channel = match tokio::time::timeout(self.spec.broker.connect_timeout, opened).await {
            Ok(opened) => {
                opened.map_err(|error| format!("cannot open a channel: {}", amqp::explain(&error)))?
            }
            Err(_) => return Err("could not open a channel in time".to_owned()),
        };
        let (requests, publishes) = mpsc::channel(self.concurrency);
        tokio::spawn(Publisher::new(channel.clone(), publishes).run());
        Ok(Line { connection: connection.into(), channel, requests })
    }

    fn publish(&self, message: &Message) -> Result<(Publish, oneshot::Receiver<Confirmed>), String> {
        let labels = labels(message, &self.spec.headers)?;
        let mut headers = FieldTable::default();
        for (name, value) in labels {
            headers.insert(short("a header's name", &name)?, AMQPValue::LongString(value.into()));
        }
        let id = message.id.hyphenated().to_string();
        let mut properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_message_id(short("its id", &id)?)
            .with_content_type(short("its content type", &message.content_type)?)
            .with_app_id(short("the app id", APP_ID)?)
            .with_headers(headers);
        // A longer one is in the headers alone.
        if let Ok(kind) = ShortString::try_new(&*message.event_type)
            && !message.event_type.is_empty()
        {
            properties = properties.with_type(kind);
        }
        let (answer, confirmed) = oneshot::channel();
        let publish = Publish {
            id,
            exchange: short("the exchange", &self.spec.exchange)?,
            routing_key: short("its routing key", &self.spec.routing_key.of(message)?)?,
            payload: message.payload.clone(),
            properties,
            answer,
        };
        Ok((publish, confirmed))
    }

    async fn attempt(&self, publish: Publish, confirmed: oneshot::Receiver<Confirmed>) -> Answer {
        let started = Instant::now();
        let deadline = started + self.spec.timeout;
        let line = match tokio::time::timeout_at(deadline, self.line(started)).await {
            Ok(Ok(line)) => line,
            Ok(Err(reason)) => return failed(reason),
            Err(_) => return failed("could not connect in time".to_owned()),
        };
        if line.is_blocked() {
            return blocked();
        }
        let key = publish.routing_key.to_string();
        let sent = async {
            match line.requests.send(publish).await {
                Ok(()) => confirmed.await.ok(),
                Err(_) => None,
            }
        };
        match tokio::time::timeout_at(deadline, sent).await {
            Ok(Some(confirmed)) => self.judge(confirmed, &key),
            Ok(None) => failed("the connection was closed".to_owned()),
            Err(_) if line.is_blocked() => blocked(),
            Err(_) => {
                self.hang_up(&line).await;
                failed(format!("was not confirmed within {} s", self.spec.timeout.as_secs_f32()))
            }
        }
    }

    /// A connection on which confirmations stay away is worth no more messages.
    async fn hang_up(&self, line: &Line) {
        let mut link = self.link.lock().await;
        if let Link::Open(current) = &*link
            && std::sync::Arc::ptr_eq(&current.connection, &line.connection)
        {
            let connection = current.connection.clone();
            *link = Link::Never;
            tokio::spawn(async move { amqp::close(&connection).await });
        }
    }

    fn judge(&self, confirmed: Confirmed, key: &str) -> Answer {
        match confirmed {
            Confirmed::Taken => Answer {
                meaning: Meaning::Accepted,
                status: None,
                error: None,
                body: bytes::Bytes::new(),
                body_bytes: 0,
            },
            Confirmed::Unroutable => {
                let exchange = match &*self.spec.exchange {
                    "" => "the default exchange".to_owned(),
                    name => format!("the exchange {name:?}"),
                };
                let error = format!("no queue takes it: bind one to {exchange} for the routing key {key:?}");
                let meaning = match self.spec.unroutable {
                    Unroutable::Retry => Meaning::Failed { retry_after: None },
                    Unroutable::DeadLetter => Meaning::Refused,
                };
                Answer { status: Some(NO_ROUTE), ..Answer::none(meaning, error) }
            }
            // A queue that is full and told to say so; or RabbitMQ could not keep the message.
            Confirmed::TurnedDown => Answer::none(
                Meaning::Throttled { retry_after: None },
                "RabbitMQ did not take it (nack): a queue is full, or it could not be written",
            ),
            Confirmed::Lost { code, reason } => {
                Answer { status: code, ..Answer::none(Meaning::Failed { retry_after: None }, reason) }
            }
        }
    }
}

#[async_trait]
impl Destination for AmqpDestination {
    async fn deliver(&self, message: &Message, _now: DateTime<Utc>) -> Answer {
        match self.publish(message) {
            Ok((publish, confirmed)) => self.attempt(publish, confirmed).await,
            Err(reason) => Answer::none(Meaning::Refused, reason),
        }
    }
}

fn failed(reason: String) -> Answer {
    Answer::none(Meaning::Failed { retry_after: None }, reason)
}

fn blocked() -> Answer {
    Answer::none(
        Meaning::Throttled { retry_after: None },
        "RabbitMQ has blocked the connection: it is short of memory or of disk",
    )
}

fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text).map_err(|_| format!("{what} is longer than the 255 bytes that AMQP allows"))
}
