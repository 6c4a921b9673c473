//! A RabbitMQ client that is not the product's: declares queues, publishes, and reads what arrived.

use std::time::Duration;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const PERSISTENT: u8 = 2;

/// A message as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
    pub(crate) properties: BasicProperties,
}

impl Arrived {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let headers = self.properties.headers().clone().unwrap_or_default();
        match headers.inner().get(name) {
            Some(AMQPValue::LongString(text)) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
            _ => String::new(),
        }
    }
}

pub(crate) struct Rabbit {
    _connection: Connection,
    channel: Channel,
}

impl Rabbit {
    pub(crate) async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connects");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        Self { _connection: connection, channel }
    }

    /// A durable queue.
    pub(crate) async fn queue(&self, name: &str) {
        self.queue_with(name, &[]).await;
    }

    pub(crate) async fn queue_with(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        self.channel
            .queue_declare(name.into(), QueueDeclareOptions::durable(), table)
            .await
            .expect("a queue");
    }

    /// A durable topic exchange.
    pub(crate) async fn exchange(&self, name: &str) {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let table = FieldTable::default();
        self.channel
            .exchange_declare(name.into(), ExchangeKind::Topic, options, table)
            .await
            .expect("an exchange");
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let (options, table) = (QueueBindOptions::default(), FieldTable::default());
        self.channel
            .queue_bind(queue.into(), exchange.into(), key.into(), options, table)
            .await
            .expect("a binding");
    }

    /// Publishes to a queue and waits for the confirmation.
    pub(crate) async fn publish(&self, queue: &str, id: &str, body: &str) {
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_message_id(id.into())
            .with_content_type("application/json".into());
        self.publish_with(queue, properties, body.as_bytes()).await;
    }

    pub(crate) async fn publish_with(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirmed = self
            .channel
            .basic_publish("".into(), queue.into(), options, body, properties)
            .await
            .expect("publishes")
            .await
            .expect("is confirmed");
        assert!(confirmed.is_ack() && confirmed.take_message().is_none(), "the queue {queue} takes it");
    }

    pub(crate) async fn delete(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.expect("deletes");
    }

    /// Messages that are ready in a queue.
    pub(crate) async fn ready(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        declared.expect("the queue is there").message_count()
    }

    /// Takes messages out of a queue until so many have come.
    pub(crate) async fn take(&self, queue: &str, messages: usize) -> Vec<Arrived> {
        let deadline = Instant::now() + PATIENCE;
        let mut arrived = Vec::new();
        while arrived.len() < messages {
            let got = self.rest(queue).await;
            if got.is_empty() {
                assert!(
                    Instant::now() < deadline,
                    "{} of {messages} messages came to {queue}",
                    arrived.len()
                );
                tokio::time::sleep(POLL).await;
            }
            arrived.extend(got);
        }
        arrived
    }

    /// Takes what is in a queue now.
    pub(crate) async fn rest(&self, queue: &str) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        while let Some(got) =
            self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.expect("gets")
        {
            let delivery = got.delivery;
            arrived.push(Arrived {
                id: delivery.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default(),
                body: delivery.data,
                properties: delivery.properties,
            });
        }
        arrived
    }
}
