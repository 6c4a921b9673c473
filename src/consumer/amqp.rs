//! A RabbitMQ queue as a source.
//!
//! What a message's properties say stands in headers of the same names (`message-id`, `message-type`,
//! `content-type`, …), beside the headers it carries. The queue is never declared: whoever owns it says
//! how it is to be.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Acker, BasicProperties, Channel, Connection, Consumer};

use super::QueueSpec;
use super::queue::{Queue, Receipt, Subscription, Taken};
use crate::broker::{BrokerSpec, amqp};
use crate::event::RawRequest;
use crate::raw_headers::RawHeaders;

/// A queue of a RabbitMQ.
pub(super) struct AmqpQueue {
    broker: BrokerSpec,
    queue: String,
    prefetch: u16,
    /// How the connection is called in RabbitMQ's lists.
    purpose: String,
}

impl AmqpQueue {
    pub(super) fn new(spec: &QueueSpec) -> Self {
        Self {
            broker: spec.broker.clone(),
            queue: spec.queue.clone(),
            prefetch: spec.prefetch,
            purpose: format!("hooklatch source {}", spec.source),
        }
    }

    async fn connect(&self) -> Result<(Connection, Channel), String> {
        let connection = amqp::connect(&self.broker, &self.purpose).await?;
        let channel = connection.create_channel().await.map_err(|error| amqp::explain(&error))?;
        Ok((connection, channel))
    }

    fn name(&self) -> Result<ShortString, String> {
        ShortString::try_new(&*self.queue).map_err(|_| "the queue's name is longer than 255 bytes".to_owned())
    }

    async fn subscribe(&self) -> Result<AmqpSubscription, String> {
        let (connection, channel) = self.connect().await?;
        let asked = async {
            channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
            let tag = ShortString::default();
            let (options, table) = (BasicConsumeOptions::default(), FieldTable::default());
            channel.basic_consume(self.name().unwrap_or_default(), tag, options, table).await
        };
        match asked.await {
            Ok(consumer) => Ok(AmqpSubscription {
                target: format!("amqp:{}", self.queue).into(),
                connection,
                channel,
                consumer,
            }),
            Err(error) => {
                let reason = amqp::explain(&error);
                amqp::close(&connection).await;
                Err(reason)
            }
        }
    }

    async fn look(&self) -> Result<String, String> {
        let (connection, channel) = self.connect().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(self.name()?, options, FieldTable::default()).await;
        let found = declared
            .map(|queue| {
                format!("{} messages wait, {} consumers", queue.message_count(), queue.consumer_count())
            })
            .map_err(|error| amqp::explain(&error));
        amqp::close(&connection).await;
        found
    }
}

#[async_trait]
impl Queue for AmqpQueue {
    async fn open(&self) -> Result<Box<dyn Subscription>, String> {
        self.name()?;
        match tokio::time::timeout(self.broker.connect_timeout, self.subscribe()).await {
            Ok(subscribed) => Ok(Box::new(subscribed?)),
            Err(_) => Err("RabbitMQ did not answer in time".to_owned()),
        }
    }

    async fn probe(&self) -> Result<String, String> {
        match tokio::time::timeout(self.broker.connect_timeout, self.look()).await {
            Ok(found) => found,
            Err(_) => Err("RabbitMQ did not answer in time".to_owned()),
        }
    }
}

struct AmqpSubscription {
    target: std::sync::Arc<str>,
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
}

#[async_trait]
impl Subscription for AmqpSubscription {
    async fn next(&mut self) -> Result<Taken, String> {
        match self.consumer.next().await {
            Some(Ok(delivery)) => Ok(Taken {
                request: RawRequest {
                    target: self.target.clone(),
                    headers: headers(&delivery.properties, &delivery.routing_key, &delivery.exchange),
                    body: Bytes::from(delivery.data),
                },
                receipt: Box::new(AmqpReceipt(delivery.acker)),
            }),
            Some(Err(error)) => Err(amqp::explain(&error)),
            None => {
                Err("RabbitMQ hands out no more: the queue was deleted, or its node went away".to_owned())
            }
        }
    }

    async fn stop(&mut self) {
        let told = self.channel.basic_cancel(self.consumer.tag(), BasicCancelOptions::default()).await;
        if let Err(error) = told {
            tracing::debug!(reason = amqp::explain(&error), "RabbitMQ could not be told to hand out no more");
        }
    }

    async fn close(self: Box<Self>) {
        amqp::close(&self.connection).await;
    }
}

struct AmqpReceipt(Acker);

#[async_trait]
impl Receipt for AmqpReceipt {
    async fn acknowledge(self: Box<Self>) -> Result<(), String> {
        match self.0.ack(BasicAckOptions::default()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the channel is closed".to_owned()),
            Err(error) => Err(amqp::explain(&error)),
        }
    }
}

/// Properties first: a header of the same name is left out.
fn headers(properties: &BasicProperties, routing_key: &ShortString, exchange: &ShortString) -> RawHeaders {
    let said = [
        ("content-type", properties.content_type()),
        ("content-encoding", properties.content_encoding()),
        ("message-id", properties.message_id()),
        ("message-type", properties.kind()),
        ("correlation-id", properties.correlation_id()),
        ("app-id", properties.app_id()),
        ("routing-key", &Some(routing_key.clone())),
        ("exchange", &Some(exchange.clone())),
    ];
    let mut headers: RawHeaders =
        said.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.as_str()))).collect();
    if let Some(timestamp) = properties.timestamp() {
        headers.push("timestamp", timestamp.to_string());
    }
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        let name = name.as_str().to_ascii_lowercase();
        if let Some(value) = text(value)
            && !headers.contains(&name)
        {
            headers.push(name, value);
        }
    }
    headers
}

/// A value that is one; lists and tables (`x-death`) are not.
fn text(value: &AMQPValue) -> Option<Bytes> {
    match value {
        AMQPValue::LongString(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        AMQPValue::ShortString(text) => Some(Bytes::from(text.to_string())),
        AMQPValue::Boolean(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::ShortShortInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::ShortShortUInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::ShortInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::ShortUInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::LongInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::LongUInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::LongLongInt(value) => Some(Bytes::from(value.to_string())),
        AMQPValue::Timestamp(value) => Some(Bytes::from(value.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_and_headers_are_headers_and_properties_win() {
        let mut table = FieldTable::default();
        table.insert("X-Tenant".into(), AMQPValue::LongString("a".into()));
        table.insert("x-count".into(), AMQPValue::LongInt(7));
        table.insert("message-id".into(), AMQPValue::LongString("forged".into()));
        table.insert("x-death".into(), AMQPValue::FieldTable(FieldTable::default()));
        let properties = BasicProperties::default()
            .with_message_id("m1".into())
            .with_type("paid".into())
            .with_headers(table);
        let headers = headers(&properties, &"shop.paid".into(), &"".into());
        let expected = [
            ("message-id", "m1"),
            ("message-type", "paid"),
            ("routing-key", "shop.paid"),
            ("exchange", ""),
            ("x-tenant", "a"),
            ("x-count", "7"),
        ];
        assert_eq!(headers, expected.into_iter().collect());
    }
}
