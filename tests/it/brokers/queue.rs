//! A RabbitMQ queue as a source.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapin::BasicProperties;

use super::{bus, table, wait_until, write};
use crate::support::app::{BODY_MARKER, TestApp, order, said};
use crate::support::broker::{Broker, Kind};
use crate::support::cluster::Cluster;
use crate::support::database::unique;
use crate::support::rabbit::Rabbit;
use crate::support::{Backend, Setup, TestDatabase, on_both_stores};

const EFFECT: &str = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CAST(data ->> 'amount' AS bigint) FROM event";

/// A source `shop` that is a queue.
fn from_queue(url: &str, queue: &str, more: &str) -> String {
    format!(
        "[[source]]\nname = \"shop\"\nkind = \"amqp\"\nurl = \"{url}\"\nqueue = \"{queue}\"\ndata = \"/data\"\n{more}\n[[source.handler]]\nsql = \"\"\"{EFFECT}\"\"\"\n"
    )
}

fn consuming(backend: Backend, url: &str, queue: &str) -> Setup {
    Setup::new(backend).sources(&from_queue(url, queue, ""))
}

/// A body without an id of its own.
fn amount(amount: i64) -> String {
    format!(r#"{{"type":"paid","data":{{"amount":{amount},"note":"{BODY_MARKER}"}}}}"#)
}

async fn wait_for_effects(app: &TestApp, effects: i64) {
    wait_until(app, &format!("{effects} effects"), async || app.database.effects().await == effects).await;
}

/// Waits until nothing is in the queue, neither ready nor handed out.
async fn wait_until_empty(app: &TestApp, broker: &Broker, queue: &str) {
    wait_until(app, "the queue is empty", async || {
        let listed = broker.ctl(&["list_queues", "name", "messages"]);
        listed.lines().any(|line| line.split_whitespace().eq([queue, "0"]))
    })
    .await;
}

on_both_stores! {
    async fn a_message_takes_effect_once_however_often_it_comes(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        for _ in 0..3 {
            rabbit.publish(&queue, "evt_1", &amount(1)).await;
        }
        let app = consuming(backend, &broker.url, &queue).start().await;
        rabbit.publish(&queue, "evt_2", &amount(2)).await;
        rabbit.publish(&queue, "evt_1", &amount(1)).await;
        wait_until_empty(&app, broker, &queue).await;
        assert_eq!(app.database.effects_of("evt_1").await, 1);
        assert_eq!(app.database.effects().await, 2);
        // The ledger tells of each.
        let ledger = table(backend, "deliveries");
        wait_until(&app, "five lines of the ledger", async || app.database.rows("deliveries").await == 5).await;
        let applied = format!("SELECT count(*) FROM {ledger} WHERE outcome = 'applied' AND peer LIKE 'amqp://127.0.0.1:%'");
        assert_eq!(app.database.number(&applied).await, 2);
        let metrics = app.admin_get("/metrics").await.text();
        assert!(metrics.contains("hooklatch_consumer_connected{source=\"shop\"} 1"), "{metrics}");
        assert!(metrics.contains("hooklatch_consumer_unacknowledged{source=\"shop\"} 0"), "{metrics}");
        assert!(metrics.contains("hooklatch_deliveries_total{source=\"shop\",outcome=\"applied\"} 2"), "{metrics}");
    }

    async fn the_event_id_is_the_messages_or_else_the_bodys(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let app = consuming(backend, &broker.url, &queue).start().await;
        rabbit.publish_with(&queue, BasicProperties::default(), order("evt_body").as_bytes()).await;
        rabbit.publish(&queue, "evt_message", &order("evt_hidden")).await;
        wait_for_effects(&app, 2).await;
        assert_eq!(app.database.effects_of("evt_body").await, 1);
        assert_eq!(app.database.effects_of("evt_message").await, 1);
    }

    async fn poison_becomes_a_dead_letter_and_holds_nothing_up(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        rabbit.publish(&queue, "evt_bad", &amount(-1)).await;
        rabbit.publish(&queue, "evt_text", "not JSON").await;
        rabbit.publish_with(&queue, BasicProperties::default(), b"{\"type\":\"no id\"}").await;
        rabbit.publish_with(&queue, BasicProperties::default(), b"").await;
        rabbit.publish(&queue, "evt_good", &amount(1)).await;
        let app = consuming(backend, &broker.url, &queue).start().await;
        wait_until_empty(&app, broker, &queue).await;
        assert_eq!(app.database.effects_of("evt_good").await, 1);
        assert_eq!(app.database.effects().await, 1);
        assert_eq!(app.database.rows("dead_letters").await, 4);
        let letters = table(backend, "dead_letters");
        let reasons = app.database.column(&format!("SELECT reason FROM {letters}")).await.join("\n");
        for reason in ["JSON", "event id", "empty"] {
            assert!(reasons.contains(reason), "{reason} in {reasons}");
        }
        // The same bytes again are the same dead letter.
        rabbit.publish(&queue, "evt_text", "not JSON").await;
        wait_until_empty(&app, broker, &queue).await;
        assert_eq!(app.database.rows("dead_letters").await, 4);
    }

    async fn an_unreadable_message_can_be_applied_when_the_rules_have_changed(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let strict = Setup::new(backend).sources(&from_queue(&broker.url, &queue, "event_id = \"body:/nr\""));
        let mut app = strict.start().await;
        rabbit.publish(&queue, "evt_1", &amount(1)).await;
        wait_until(&app, "a dead letter", async || app.database.rows("dead_letters").await == 1).await;
        assert_eq!(app.stop(), Some(0));
        let app = consuming(backend, &broker.url, &queue).start_on(app.database.clone()).await;
        let retried = app.run(&["events", "retry", "--source", "shop", "--yes"]);
        assert!(retried.status.success(), "{}", said(&retried));
        assert_eq!(app.database.effects_of("evt_1").await, 1);
        assert_eq!(app.database.rows("dead_letters").await, 0);
    }

    async fn a_source_that_is_taken_out_and_put_back_goes_on_with_what_came_meanwhile(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let source = from_queue(&broker.url, &queue, "prefetch = 1");
        let app = Setup::new(backend).sources(&source).start().await;
        app.edit_config(|text| text.replace(&source, ""));
        app.logs("configuration read again and put to use", 1).await;
        rabbit.publish(&queue, "evt_1", &amount(1)).await;
        wait_until(&app, "a message is taken", async || {
            let metrics = app.admin_get("/metrics").await.text();
            metrics.contains("hooklatch_consumer_unacknowledged{source=\"shop\"} 1")
        }).await;
        app.edit_config(|text| format!("{text}{source}"));
        app.logs("configuration read again and put to use", 2).await;
        rabbit.publish(&queue, "evt_2", &amount(2)).await;
        wait_for_effects(&app, 2).await;
    }

    async fn a_handler_that_goes_on_failing_for_now_is_given_up(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let source = from_queue(&broker.url, &queue, "max_attempts = 3").replace("INTO effects", "INTO missing_table");
        let app = Setup::new(backend).sources(&source).start().await;
        rabbit.publish(&queue, "evt_1", &amount(1)).await;
        wait_until(&app, "a dead letter", async || app.database.rows("dead_letters").await == 1).await;
        wait_until_empty(&app, broker, &queue).await;
        let letters = table(backend, "dead_letters");
        let reasons = app.database.column(&format!("SELECT reason FROM {letters}")).await;
        assert!(reasons[0].contains("given up after 3 attempts"), "{reasons:?}");
    }

    async fn a_message_of_many_of_which_one_goes_on_failing_is_given_up(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let more = "max_attempts = 3\nitems = \"/items\"\nevent_id = \"body:/id\"\nevent_type = \"body:/type\"";
        let source = from_queue(&broker.url, &queue, more)
            + "[[source.handler]]\non = [\"broken\"]\nsql = \"INSERT INTO missing_table SELECT id FROM event\"\n";
        let app = Setup::new(backend).sources(&source).start().await;
        let item = |id: &str, kind: &str| format!(r#"{{"id":"{id}","type":"{kind}","data":{{"amount":1}}}}"#);
        let body = format!(r#"{{"items":[{},{}]}}"#, item("evt_1", "paid"), item("evt_2", "broken"));
        rabbit.publish(&queue, "msg_1", &body).await;
        wait_until_empty(&app, broker, &queue).await;
        let letters = table(backend, "dead_letters");
        let reasons = app.database.column(&format!("SELECT reason FROM {letters}")).await;
        assert!(!reasons.is_empty() && reasons.iter().all(|r| r.contains("given up after 3 attempts")), "{reasons:?}");
    }

    async fn a_process_killed_while_it_consumes_doubles_and_loses_nothing(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        let mut app = consuming(backend, &broker.url, &queue).start().await;
        for n in 0..600 {
            if n % 100 == 50 {
                app.kill();
                app.start();
            }
            rabbit.publish(&queue, &format!("evt_{n}"), &amount(n)).await;
        }
        app.kill();
        app.start();
        wait_for_effects(&app, 600).await;
        wait_until_empty(&app, broker, &queue).await;
        assert_eq!(app.database.effects().await, 600);
    }

    async fn a_stop_settles_what_was_taken_and_leaves_the_rest(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        rabbit.queue(&queue).await;
        for n in 0..2000 {
            rabbit.publish(&queue, &format!("evt_{n}"), &amount(n)).await;
        }
        let mut app = consuming(backend, &broker.url, &queue).set("inbox.max_batch", "8").start().await;
        wait_until(&app, "a few effects", async || app.database.effects().await > 0).await;
        assert_eq!(app.stop(), Some(0));
        let done = app.database.effects().await;
        let rest = rabbit.rest(&queue).await;
        let rest: BTreeSet<_> = rest.into_iter().map(|message| message.id).collect();
        assert_eq!(done + i64::try_from(rest.len()).expect("few"), 2000, "each is done or still there, none both");
    }

    async fn nobody_may_post_to_a_queue(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let queue = unique();
        Rabbit::connect(&broker.url).await.queue(&queue).await;
        let app = consuming(backend, &broker.url, &queue).start().await;
        assert_eq!(app.deliver("shop", order("evt_1")).await.status, 404);
        assert_eq!(app.database.effects().await, 0);
    }

    async fn check_asks_for_the_queue(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let rabbit = Rabbit::connect(&broker.url).await;
        let queue = unique();
        let app = consuming(backend, &broker.url, &queue).start().await;
        let missing = app.run(&["check"]);
        assert!(!missing.status.success() && said(&missing).contains("NOT_FOUND"), "{}", said(&missing));
        rabbit.queue(&queue).await;
        rabbit.publish(&queue, "evt_1", &amount(1)).await;
        // The process that waits for it finds it by itself.
        wait_for_effects(&app, 1).await;
        let found = app.run(&["check"]);
        assert!(found.status.success() && said(&found).contains("1 consumers"), "{}", said(&found));
    }

    async fn what_the_outbox_sends_through_a_queue_takes_effect_once(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
        let queue = unique();
        Rabbit::connect(&broker.url).await.queue(&queue).await;
        let sources = from_queue(&broker.url, &queue, "") + &bus(&broker.url, &format!("routing_key = \"{queue}\""));
        let mut app = Setup::new(backend).sources(&sources).set("relay.lease", "\"1s\"").start().await;
        for batch in 0..5 {
            let bodies: Vec<_> = (0..40).map(|n| amount(batch * 40 + n)).collect();
            let messages: Vec<_> = bodies.iter().map(|body| ("paid", body.as_str())).collect();
            write(&app.database, &messages).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            // Relay and consumer at once.
            app.kill();
            app.start();
        }
        wait_for_effects(&app, 200).await;
        wait_until_empty(&app, broker, &queue).await;
        assert_eq!(app.database.effects().await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_waited_for_without_a_loop() {
    let Some(broker) = Broker::shared(Kind::RabbitMq) else { return };
    let rabbit = Rabbit::connect(&broker.url).await;
    let queue = unique();
    rabbit.queue(&queue).await;
    let cluster = tokio::task::spawn_blocking(Cluster::new).await.expect("a cluster starts");
    let database = Arc::new(TestDatabase::at(&cluster.url).await);
    let app = consuming(Backend::Postgres, &broker.url, &queue)
        .set("inbox.deadline", "\"1s\"")
        .set("inbox.handler_timeout", "\"500ms\"")
        .set("inbox.inflight_wait", "\"500ms\"")
        .start_on(database)
        .await;
    rabbit.publish(&queue, "evt_0", &amount(1)).await;
    wait_for_effects(&app, 1).await;
    cluster.stop("immediate");
    for n in 1..=20 {
        rabbit.publish(&queue, &format!("evt_{n}"), &amount(n)).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    let metrics = app.admin_get("/metrics").await.text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("hooklatch_deliveries_total{source=\"shop\",outcome=\"unavailable\"}"));
    let attempts: u32 = line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a count");
    assert!((1..=200).contains(&attempts), "{attempts} attempts for 20 messages in 4 s");
    assert!(metrics.contains("hooklatch_consumer_unacknowledged{source=\"shop\"} 20"), "{metrics}");
    assert_eq!(rabbit.ready(&queue).await, 0, "none was handed back");
    cluster.start();
    wait_for_effects(&app, 21).await;
    wait_until_empty(&app, broker, &queue).await;
}

/// Each has a broker of its own, which takes seconds to start.
async fn outages(backend: Backend) {
    let Some(broker) = Broker::own(Kind::RabbitMq) else { return };
    let queue = unique();
    let publish = async |id: &str| {
        let rabbit = Rabbit::connect(&broker.url).await;
        rabbit.queue(&queue).await;
        rabbit.publish(&queue, id, &amount(1)).await;
    };
    publish("evt_before").await;
    let app = consuming(backend, &broker.url, &queue).start().await;
    wait_for_effects(&app, 1).await;
    broker.stop();
    wait_until(&app, "the loss is told", async || app.log().contains("no messages are taken")).await;
    let metrics = app.admin_get("/metrics").await.text();
    assert!(metrics.contains("hooklatch_consumer_connected{source=\"shop\"} 0"), "{metrics}");
    broker.start();
    publish("evt_after").await;
    wait_for_effects(&app, 2).await;
    broker.kill();
    broker.start();
    publish("evt_after_crash").await;
    wait_for_effects(&app, 3).await;
    // The queue is taken away under the consumer.
    Rabbit::connect(&broker.url).await.delete(&queue).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    publish("evt_new_queue").await;
    wait_for_effects(&app, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_outlasts_its_broker_on_sqlite() {
    outages(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_outlasts_its_broker_on_postgres() {
    outages(Backend::Postgres).await;
}
