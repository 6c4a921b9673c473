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

/// Takes messages until `stop`; then settles those that have been taken. Returns early only when the line
/// to a queue has crashed: a queue that nobody takes from any more must not go unnoticed.
pub async fn run(consumers: Consumers, stop: CancellationToken) {
    let Consumers { queues, state, grace } = consumers;
    let line = |spec: QueueSpec| Some(Line::new(spec.clone(), spec.queue()?, state.clone(), grace));
    work(queues.into_iter().filter_map(line), stop).await;
}

async fn work(lines: impl Iterator<Item = Line>, stop: CancellationToken) {
    let end = stop.child_token();
    let mut working = JoinSet::new();
    for line in lines {
        working.spawn(line.run(end.clone()));
    }
    while let Some(ended) = working.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "taking messages from a queue ended unexpectedly");
            end.cancel();
        }
    }
    if !end.is_cancelled() {
        stop.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::queue::Subscription;
    use super::*;
    use crate::app::start_inbox;
    use crate::broker::BrokerUrl;
    use crate::clock::Clock;
    use crate::config::{Config, Environment};
    use crate::http::{Limits, Services};
    use crate::ledger::Ledger;
    use crate::outbox::Hints;
    use crate::store::awaited::AwaitedStore;
    use crate::store::{Dialect, Store};
    use crate::telemetry::metrics::Metrics;

    struct Unreachable;

    #[async_trait]
    impl Queue for Unreachable {
        async fn open(&self) -> Result<Box<dyn Subscription>, String> {
            Err("it is away".to_owned())
        }

        async fn probe(&self) -> Result<String, String> {
            self.open().await.map(|_| String::new())
        }
    }

    struct Crashing;

    #[async_trait]
    impl Queue for Crashing {
        async fn open(&self) -> Result<Box<dyn Subscription>, String> {
            panic!("the test crashes this line")
        }

        async fn probe(&self) -> Result<String, String> {
            self.open().await.map(|_| String::new())
        }
    }

    fn line(queue: Arc<dyn Queue>) -> Line {
        let store: Arc<dyn Store> = Arc::new(AwaitedStore::new(Dialect::Sqlite));
        let config = Config::parse("test.toml", "", &Environment::default()).expect("is right");
        let (clock, metrics) = (Clock::system(), Arc::new(Metrics::new()));
        let services = Services {
            inbox: start_inbox(&store, &config, &clock, &metrics, Hints::default()),
            ledger: Ledger::start(store.clone(), 1, metrics.clone()),
            store,
            metrics,
            clock,
            runtime: tokio::runtime::Handle::current(),
        };
        let state = ServerState::new(services, Vec::new(), Limits::default(), None);
        let broker = BrokerSpec {
            url: BrokerUrl::parse("amqp://localhost").expect("a URL"),
            connect_timeout: Duration::from_secs(1),
            tls: None,
        };
        let spec = QueueSpec {
            source: "shop".into(),
            broker,
            queue: "q".to_owned(),
            stream: None,
            prefetch: 1,
            max_attempts: 1,
        };
        Line::new(spec, queue, Arc::new(state), Duration::from_secs(1))
    }

    #[tokio::test]
    async fn a_line_that_crashes_ends_all_though_nobody_stops_them() {
        let stop = CancellationToken::new();
        let both = [line(Arc::new(Unreachable)), line(Arc::new(Crashing))];
        let ended = tokio::time::timeout(Duration::from_secs(30), work(both.into_iter(), stop.clone())).await;
        assert!(ended.is_ok() && !stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_queue_that_is_away_ends_nothing() {
        let stop = CancellationToken::new();
        let working = tokio::spawn(work([line(Arc::new(Unreachable))].into_iter(), stop.clone()));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!working.is_finished());
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(30), working)
            .await
            .expect("it ends")
            .expect("without a panic");
    }
}
