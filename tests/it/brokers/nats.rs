//! NATS `JetStream`, as a destination and as a source.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt as _;

use super::{relaying, table, wait_for, wait_until, write};
use crate::support::app::{BODY_MARKER, TestApp, said};
use crate::support::broker::{Broker, Kind};
use crate::support::database::unique;
use crate::support::{Backend, Setup, on_both_stores};

const EFFECT: &str = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CAST(data ->> 'amount' AS bigint) FROM event";

async fn jetstream(url: &str) -> Context {
    let (credentials, server) =
        url.trim_start_matches("nats://").split_once('@').expect("the tests' own URL");
    let (user, password) = credentials.split_once(':').expect("the tests' own URL");
    let options = async_nats::ConnectOptions::with_user_and_password(user.into(), password.into());
    jetstream::new(options.connect(server).await.expect("connects"))
}

/// A stream that takes all subjects below its name.
async fn stream(context: &Context, name: &str) -> stream::Stream {
    let config = stream::Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        ..stream::Config::default()
    };
    context.create_stream(config).await.expect("a stream")
}

async fn messages(stream: &mut stream::Stream) -> u64 {
    stream.info().await.expect("it is there").state.messages
}

async fn publish(context: &Context, subject: &str, id: &str, body: &str) {
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", id);
    let published = context.publish_with_headers(subject.to_owned(), headers, body.to_owned().into()).await;
    published.expect("publishes").await.expect("is stored");
}

fn amount(amount: i64) -> String {
    format!(r#"{{"type":"paid","data":{{"amount":{amount},"note":"{BODY_MARKER}"}}}}"#)
}

fn consuming(backend: Backend, url: &str, name: &str) -> Setup {
    Setup::new(backend).sources(&format!(
        "[[source]]\nname = \"shop\"\nkind = \"nats\"\nurl = \"{url}\"\nstream = \"{name}\"\nqueue = \"hooklatch\"\ndata = \"/data\"\n[[source.handler]]\nsql = \"\"\"{EFFECT}\"\"\"\n"
    ))
}

async fn wait_for_effects(app: &TestApp, effects: i64) {
    wait_until(app, &format!("{effects} effects"), async || app.database.effects().await == effects).await;
}

/// Waits until nothing is left to deliver or to acknowledge.
async fn wait_until_done(app: &TestApp, stream: &stream::Stream) {
    wait_until(app, "everything is acknowledged", async || {
        let consumer = stream.consumer_info("hooklatch").await.expect("it was made");
        consumer.num_pending == 0 && consumer.num_ack_pending == 0
    })
    .await;
}

on_both_stores! {
    async fn a_message_is_stored_as_it_was_written_and_once(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::Nats) else { return };
        let context = jetstream(&broker.url).await;
        let name = unique();
        let mut stored = stream(&context, &name).await;
        let mut app = relaying(backend, &broker.url, &format!("subject = \"{name}.{{event_type}}\""))
            .set("relay.lease", "\"1s\"")
            .start().await;
        let payloads: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
        let rows: Vec<_> = payloads.iter().map(|payload| ("paid", payload.as_str())).collect();
        write(&app.database, &rows).await;
        for pause in [10, 60] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            app.kill();
            app.start();
        }
        wait_for(&app, "sent", 300).await;
        assert_eq!(messages(&mut stored).await, 300, "the stream knows a message that comes twice by its id");
        let mut all = stored.create_consumer(jetstream::consumer::pull::Config::default()).await.expect("a consumer")
            .fetch().max_messages(300).messages().await.expect("messages");
        let mut texts = BTreeSet::new();
        while let Some(message) = all.next().await {
            let message = message.expect("a message");
            assert_eq!(message.subject.as_str(), format!("{name}.paid"));
            let headers = message.headers.clone().expect("headers");
            assert_eq!(headers.get("hooklatch-hops").map(|value| value.as_str()), Some("1"));
            assert_eq!(headers.get("content-type").map(|value| value.as_str()), Some("application/json"));
            assert_eq!(headers.get("Nats-Msg-Id").map(|value| value.as_str().len()), Some(36));
            texts.insert(String::from_utf8_lossy(&message.payload).into_owned());
        }
        assert_eq!(texts, payloads.into_iter().collect());
    }

    async fn a_subject_that_no_stream_takes_is_told_and_waited_for(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::Nats) else { return };
        let context = jetstream(&broker.url).await;
        let name = unique();
        let app = relaying(backend, &broker.url, &format!("subject = \"{name}.{{event_type}}\"")).start().await;
        write(&app.database, &[("paid", "late"), ("not a subject", "never")]).await;
        wait_for(&app, "dead", 1).await;
        let outbox = table(backend, "outbox");
        wait_until(&app, "it was tried twice", async || {
            app.database.number(&format!("SELECT CAST(max(attempts) AS bigint) FROM {outbox}")).await >= 2
        }).await;
        let tried = app.run(&["destinations", "test", "bus"]);
        assert!(!tried.status.success() && said(&tried).contains("no stream takes the subject"), "{}", said(&tried));
        let mut stored = stream(&context, &name).await;
        wait_for(&app, "sent", 1).await;
        assert_eq!(messages(&mut stored).await, 1);
    }

    async fn a_message_of_a_stream_takes_effect_once_through_crashes(backend: Backend) {
        let Some(broker) = Broker::shared(Kind::Nats) else { return };
        let context = jetstream(&broker.url).await;
        let name = unique();
        let stored = stream(&context, &name).await;
        let mut app = consuming(backend, &broker.url, &name).start().await;
        for n in 0..200 {
            if n % 70 == 40 {
                app.kill();
                app.start();
            }
            publish(&context, &format!("{name}.paid"), &format!("evt_{n}"), &amount(n)).await;
        }
        publish(&context, &format!("{name}.paid"), "evt_bad", &amount(-1)).await;
        publish(&context, &format!("{name}.paid"), "evt_text", "no JSON").await;
        wait_for_effects(&app, 200).await;
        wait_until_done(&app, &stored).await;
        assert_eq!(app.database.effects().await, 200);
        assert_eq!(app.database.rows("dead_letters").await, 2);
        assert_eq!(app.stop(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_and_starts_is_found_again_in_both_directions() {
    let Some(broker) = Broker::own(Kind::Nats) else { return };
    let name = unique();
    stream(&jetstream(&broker.url).await, &name).await;
    let relay =
        relaying(Backend::Sqlite, &broker.url, &format!("subject = \"{name}.{{event_type}}\"")).start().await;
    let app = consuming(Backend::Sqlite, &broker.url, &name).start().await;
    write(&relay.database, &[("paid", &amount(1))]).await;
    wait_for(&relay, "sent", 1).await;
    wait_for_effects(&app, 1).await;
    broker.stop();
    write(&relay.database, &[("paid", &amount(2))]).await;
    let waits = "SELECT CAST(max(attempts) AS bigint) FROM outbox";
    wait_until(&relay, "it was tried in vain", async || relay.database.number(waits).await >= 2).await;
    broker.start();
    wait_for(&relay, "sent", 2).await;
    wait_for_effects(&app, 2).await;
}
