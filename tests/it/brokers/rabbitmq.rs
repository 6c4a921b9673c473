//! RabbitMQ as a destination.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{in_state, relaying, table, wait_for, wait_until, write};
use crate::support::app::{BODY_MARKER, said};
use crate::support::broker::{Broker, Kind};
use crate::support::database::unique;
use crate::support::rabbit::Rabbit;
use crate::support::{Backend, on_both_stores};

/// Lines of a destination that goes to a queue.
fn to_queue(queue: &str) -> String {
    format!("routing_key = \"{queue}\"")
}

/// Payloads that can be told apart.
fn payloads(messages: usize) -> Vec<String> {
    (0..messages).map(|n| format!("m{n}")).collect()
}

on_both_stores! {
    async fn a_message_arrives_as_it_was_written_under_its_id(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let (exchange, queue) = (unique(), unique());
        rabbit.exchange(&exchange).await;
        rabbit.queue(&queue).await;
        rabbit.bind(&queue, &exchange, "shop.paid.7").await;
        let lines = format!(
            "exchange = \"{exchange}\"\nrouting_key = \"shop.{{event_type}}.{{aggregate_id}}\"\nheaders = {{ x-env = \"test\" }}"
        );
        let app = relaying(backend, &broker.url, &lines).start().await;
        let outbox = table(backend, "outbox");
        let body = r#"{ "amount": 1.10, "text": "é" }"#;
        app.database.execute(&format!(
            "INSERT INTO {outbox} (destination, aggregate_id, event_type, content_type, headers, payload, traceparent, hops) \
             VALUES ('bus', '7', 'paid', 'application/json; charset=utf-8', '{{\"X-Tenant\": \"a\"}}', '{body}', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 2)"
        )).await;
        let arrived = rabbit.take(&queue, 1).await;
        wait_for(&app, "sent", 1).await;
        let ids = app.database.column(&format!("SELECT lower(CAST(id AS text)) FROM {outbox}")).await;
        let message = &arrived[0];
        assert_eq!(message.text(), body);
        if backend == Backend::Postgres {
            assert_eq!(vec![message.id.clone()], ids);
        }
        assert_eq!(message.id.len(), 36);
        let properties = &message.properties;
        assert_eq!(*properties.delivery_mode(), Some(2));
        assert_eq!(properties.content_type().as_ref().map(ToString::to_string).as_deref(), Some("application/json; charset=utf-8"));
        assert_eq!(properties.kind().as_ref().map(ToString::to_string).as_deref(), Some("paid"));
        for (name, value) in [
            ("hooklatch-hops", "3"),
            ("hooklatch-aggregate-id", "7"),
            ("x-env", "test"),
            ("x-tenant", "a"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ] {
            assert_eq!(message.header(name), value, "{name}");
        }
        let tried = app.run(&["destinations", "test", "bus"]);
        assert!(!tried.status.success(), "its event type is bound nowhere: {}", said(&tried));
    }

    async fn an_unroutable_message_fails_alone_among_many(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        // Names of queues: one exists, the other does not.
        let lines = "routing_key = \"{event_type}\"\nunroutable = \"dead-letter\"\nconcurrency = 64";
        let app = relaying(backend, &broker.url, lines).start().await;
        let nowhere = unique();
        let payloads = payloads(400);
        let messages: Vec<_> = payloads.iter().enumerate().map(|(n, payload)| {
            (if n % 4 == 3 { nowhere.as_str() } else { queue.as_str() }, payload.as_str())
        }).collect();
        write(&app.database, &messages).await;
        wait_for(&app, "dead", 100).await;
        wait_for(&app, "sent", 300).await;
        let arrived: Vec<_> = rabbit.take(&queue, 300).await.iter().map(|message| message.text()).collect();
        let distinct: BTreeSet<_> = arrived.iter().cloned().collect();
        assert_eq!((arrived.len(), distinct.len()), (300, 300), "each came once");
        let outbox = table(backend, "outbox");
        let wrong = format!("SELECT count(*) FROM {outbox} WHERE (state = 'dead') <> (event_type = '{nowhere}')");
        assert_eq!(app.database.number(&wrong).await, 0, "no message was judged by another's fate");
        let shown = app.run(&["outbox", "list", "--dead"]);
        assert!(said(&shown).contains("no queue takes it"), "{}", said(&shown));
    }

    async fn an_unroutable_message_waits_for_its_queue(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        // Not even when asked for everything: what comes back holds the body.
        let app = relaying(backend, &broker.url, &to_queue(&queue))
            .set("log.level", "\"debug,lapin=trace\"")
            .start().await;
        write(&app.database, &[("t", BODY_MARKER)]).await;
        let outbox = table(backend, "outbox");
        wait_until(&app, "it was tried twice", async || {
            app.database.number(&format!("SELECT CAST(max(attempts) AS bigint) FROM {outbox}")).await >= 2
        }).await;
        rabbit.queue(&queue).await;
        assert_eq!(rabbit.take(&queue, 1).await[0].text(), BODY_MARKER);
        wait_for(&app, "sent", 1).await;
    }

    async fn an_exchange_that_is_not_there_is_named_and_waited_for(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let (exchange, queue) = (unique(), unique());
        let app = relaying(backend, &broker.url, &format!("exchange = \"{exchange}\"")).start().await;
        write(&app.database, &[("paid", "one"), ("paid", "two")]).await;
        wait_until(&app, "the log says what is missing", async || {
            app.log().contains("NOT_FOUND") && app.log().contains(&exchange)
        }).await;
        rabbit.exchange(&exchange).await;
        rabbit.queue(&queue).await;
        rabbit.bind(&queue, &exchange, "#").await;
        let arrived: BTreeSet<_> = rabbit.take(&queue, 2).await.iter().map(|message| message.text()).collect();
        assert_eq!(arrived, BTreeSet::from(["one".to_owned(), "two".to_owned()]));
        wait_for(&app, "sent", 2).await;
    }

    async fn a_relay_killed_while_it_publishes_loses_nothing(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let mut app = relaying(backend, &broker.url, &to_queue(&queue))
            .set("relay.lease", "\"1s\"")
            .start().await;
        let payloads = payloads(1000);
        let messages: Vec<_> = payloads.iter().map(|payload| ("t", payload.as_str())).collect();
        write(&app.database, &messages).await;
        for pause in [5, 30, 60, 100, 10] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            app.kill();
            app.start();
        }
        wait_for(&app, "sent", 1000).await;
        let arrived = rabbit.rest(&queue).await;
        let ids: BTreeSet<_> = arrived.iter().map(|message| (message.text(), message.id.clone())).collect();
        let texts: BTreeSet<_> = arrived.iter().map(|message| message.text()).collect();
        assert_eq!(texts, payloads.into_iter().collect(), "nothing is lost");
        assert_eq!(ids.len(), texts.len(), "a message that came twice came under one id");
    }

    async fn a_queue_that_is_full_throttles_its_destination(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue_with(&queue, &[
            ("x-max-length", lapin::types::AMQPValue::LongInt(1)),
            ("x-overflow", lapin::types::AMQPValue::LongString("reject-publish".into())),
        ]).await;
        let app = relaying(backend, &broker.url, &to_queue(&queue)).start().await;
        write(&app.database, &[("t", "a"), ("t", "b"), ("t", "c")]).await;
        wait_until(&app, "the queue turned one down", async || {
            app.admin_get("/metrics").await.text().contains("result=\"throttled\"")
        }).await;
        let mut arrived = BTreeSet::new();
        while arrived.len() < 3 {
            arrived.extend(rabbit.take(&queue, 1).await.iter().map(|message| message.text()));
        }
        wait_for(&app, "sent", 3).await;
    }
}

/// One after the other on two stores: each has a broker of its own, which takes seconds to start.
async fn outages(backend: Backend) {
    let Some(broker) = Broker::own(Kind::RabbitMq) else { return };
    let queue = unique();
    Rabbit::connect(&broker.url).await.queue(&queue).await;
    let app = relaying(backend, &broker.url, &to_queue(&queue)).start().await;
    write(&app.database, &[("t", "before")]).await;
    wait_for(&app, "sent", 1).await;

    broker.stop();
    write(&app.database, &[("t", "while it is away")]).await;
    let outbox = table(backend, "outbox");
    wait_until(&app, "it was tried in vain", async || {
        app.database.number(&format!("SELECT CAST(max(attempts) AS bigint) FROM {outbox}")).await >= 2
    })
    .await;
    broker.start();
    wait_for(&app, "sent", 2).await;

    broker.kill();
    broker.start();
    write(&app.database, &[("t", "after a crash")]).await;
    wait_for(&app, "sent", 3).await;

    // RabbitMQ takes nothing while it is short of memory: nothing is lost and nothing given up.
    broker.ctl(&["set_vm_memory_high_watermark", "absolute", "1000"]);
    write(&app.database, &[("t", "blocked one"), ("t", "blocked two")]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(in_state(&app.database, "sent").await, 3);
    broker.ctl(&["set_vm_memory_high_watermark", "0.4"]);
    wait_for(&app, "sent", 5).await;

    let rabbit = Rabbit::connect(&broker.url).await;
    let arrived: BTreeSet<_> = rabbit.rest(&queue).await.iter().map(|message| message.text()).collect();
    assert_eq!(
        arrived,
        ["before", "while it is away", "after a crash", "blocked one", "blocked two"]
            .map(str::to_owned)
            .into()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_outlast_a_broker_that_stops_crashes_and_blocks_on_sqlite() {
    outages(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_outlast_a_broker_that_stops_crashes_and_blocks_on_postgres() {
    outages(Backend::Postgres).await;
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_shown() {
    let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
    let url = broker.url.replace("hooklatch:", "hooklatch:never-log-this-token");
    let app = relaying(Backend::Sqlite, &url, &to_queue("q")).start().await;
    let tried = app.run(&["destinations", "test", "bus"]);
    let said = said(&tried);
    assert!(!tried.status.success() && said.contains("ACCESS_REFUSED"), "{said}");
    assert!(!said.contains("never-log-this-token"), "{said}");
}
