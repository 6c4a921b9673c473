//! Queues of brokers as sources: the same inbox, behind another door.
//!
//! A message is one delivery. It is acknowledged when its transaction is committed, never before; so it
//! may come again, and its event's key makes it take effect once. A message is never handed back to its
//! queue to come again at once: what cannot be settled now is kept and tried again, ever more slowly, and
//! what can never be settled becomes a dead letter and is acknowledged.
//!
//! In the order of a message's way: [`queue`] is what every kind of broker does, `amqp` is RabbitMQ, `nats` is JetStream,
//! `line` takes messages for one source and connects again, `settle` brings one message to its end.
//! Knows neither SQL nor HTTP types.

#[cfg(feature = "amqp")]
mod amqp;
mod line;
#[cfg(feature = "nats")]
mod nats;
pub mod queue;
mod settle;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[cfg(any(feature = "amqp", feature = "nats"))]
use crate::broker::BrokerKind;
use crate::broker::BrokerSpec;
use crate::http::ServerState;
use line::Line;
use queue::Queue;

/// A queue that events of a source come from, as it is configured.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    /// The name of the source.
    pub source: Arc<str>,
    pub broker: BrokerSpec,
    /// What the broker calls the queue; NATS: the durable consumer …
    pub queue: String,
    /// … of this stream.
    pub stream: Option<String>,
    /// Messages that may be on their way at a time, taken and not acknowledged.
    pub prefetch: u16,
    /// A message whose events fail so often for now is given up.
    pub max_attempts: u32,
}

impl QueueSpec {
    /// The queue itself, not connected yet.
    #[must_use]
    pub fn queue(&self) -> Option<Arc<dyn Queue>> {
        match self.broker.url.kind() {
            #[cfg(feature = "amqp")]
            BrokerKind::Amqp => Some(Arc::new(amqp::AmqpQueue::new(self))),
            #[cfg(feature = "nats")]
            BrokerKind::Nats => Some(Arc::new(nats::NatsQueue::new(self))),
            // The configuration refuses what is not built in.
            _ => None,
        }
    }
}

/// All queues of a process.
pub struct Consumers {
    queues: Vec<QueueSpec>,
    state: Arc<ServerState>,
    grace: Duration,
}

impl Consumers {
    /// `grace`: how long a stop waits for messages that have been taken. The first scrape finds every
    /// queue, however soon it comes.
    #[must_use]
    pub fn new(queues: Vec<QueueSpec>, state: Arc<ServerState>, grace: Duration) -> Self {
        state.services().metrics.consumers.register(queues.iter().map(|spec| &*spec.source));
        Self { queues, state, grace }
    }
}

impl fmt::Debug for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumers").field("queues", &self.queues).finish_non_exhaustive()
    }
}

/// Takes messages until `stop`; then settles those that have been taken.
pub async fn run(consumers: Consumers, stop: CancellationToken) {
    let Consumers { queues, state, grace } = consumers;
    let mut lines = JoinSet::new();
    for spec in queues {
        if let Some(queue) = spec.queue() {
            lines.spawn(Line::new(spec, queue, state.clone(), grace).run(stop.clone()));
        }
    }
    while let Some(ended) = lines.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "taking messages from a queue ended unexpectedly");
        }
    }
    stop.cancelled().await;
}
