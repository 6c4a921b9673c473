//! Kafka as a destination. The broker is the mock cluster of librdkafka: it speaks Kafka's protocol over
//! real connections, idempotent producers and partitions included, and keeps records in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::{in_state, relaying, table, wait_for, wait_until};
use crate::support::app::BODY_MARKER;
use crate::support::{Backend, on_both_stores};

const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A record as it arrived.
struct Arrived {
    partition: i32,
    key: String,
    id: String,
    text: String,
}

fn cluster() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("orders", PARTITIONS, 1).expect("a topic");
    cluster
}

fn url(cluster: &MockCluster<'static, DefaultProducerContext>) -> String {
    format!("kafka://{}", cluster.bootstrap_servers())
}

/// Records of the topic until so many have come.
async fn take(cluster: &MockCluster<'static, DefaultProducerContext>, records: usize) -> Vec<Arrived> {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .set("auto.offset.reset", "earliest")
        .create()
        .expect("a consumer");
    consumer.subscribe(&["orders"]).expect("subscribes");
    let mut arrived = Vec::new();
    while arrived.len() < records {
        let next = tokio::time::timeout(PATIENCE, consumer.recv()).await;
        let record = next.expect("it comes in time").expect("a record").detach();
        let headers = record.headers().expect("headers");
        let id = headers
            .iter()
            .find(|header| header.key == "hooklatch-message-id")
            .and_then(|header| header.value);
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        arrived.push(Arrived {
            partition: record.partition(),
            key: text(record.key()),
            id: text(id),
            text: text(record.payload()),
        });
    }
    arrived
}

on_both_stores! {
    async fn records_of_one_aggregate_stay_in_order_in_one_partition(backend: Backend) {
        let cluster = cluster();
        let mut app = relaying(backend, &url(&cluster), "topic = \"orders\"").set("relay.lease", "\"1s\"").start().await;
        let outbox = table(backend, "outbox");
        let rows: Vec<_> = (0..90).map(|n| format!("('bus', 'a{}', '{n}')", n % 3)).collect();
        app.database.execute(&format!(
            "INSERT INTO {outbox} (destination, aggregate_id, payload) VALUES {}", rows.join(", ")
        )).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        app.kill();
        app.start();
        wait_for(&app, "sent", 90).await;
        let mut partitions: BTreeMap<String, i32> = BTreeMap::new();
        let mut ids: BTreeMap<String, String> = BTreeMap::new();
        let mut order: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for record in take(&cluster, 90).await {
            assert_eq!(*partitions.entry(record.key.clone()).or_insert(record.partition), record.partition);
            assert_eq!(record.id.len(), 36);
            let known = ids.entry(record.text.clone()).or_insert_with(|| record.id.clone());
            assert_eq!(*known, record.id, "one id for ever");
            order.entry(record.key).or_default().push(record.text.parse().expect("a number"));
        }
        for (aggregate, mut numbers) in order {
            // A record that came twice came twice in a row.
            numbers.dedup();
            assert!(numbers.is_sorted(), "{aggregate}: {numbers:?}");
        }
    }

    async fn a_broker_that_is_away_is_waited_for(backend: Backend) {
        let cluster = cluster();
        cluster.broker_down(1).expect("it goes away");
        let app = relaying(backend, &url(&cluster), "topic = \"orders\"\ntimeout = \"1s\"").start().await;
        let outbox = table(backend, "outbox");
        app.database.execute(&format!("INSERT INTO {outbox} (destination, payload) VALUES ('bus', '{BODY_MARKER}')")).await;
        wait_until(&app, "it was tried in vain", async || {
            app.database.number(&format!("SELECT CAST(max(attempts) AS bigint) FROM {outbox}")).await >= 2
        }).await;
        assert_eq!(in_state(&app.database, "sent").await, 0);
        cluster.broker_up(1).expect("it comes back");
        wait_for(&app, "sent", 1).await;
        assert_eq!(take(&cluster, 1).await[0].text, BODY_MARKER);
    }
}
