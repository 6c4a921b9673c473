//! Brokers behind TLS, as destinations and as sources: whose certificates are believed, and which is shown.

use std::path::Path;

use async_nats::jetstream::{self, stream};
use tempfile::TempDir;

use super::{relaying, wait_for, wait_until, write};
use crate::support::app::{TestApp, said};
use crate::support::broker::{Broker, Kind};
use crate::support::certificates::Authority;
use crate::support::database::unique;
use crate::support::rabbit::Rabbit;
use crate::support::{Backend, Setup, on_both_stores};

const EFFECT: &str = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CAST(data ->> 'amount' AS bigint) FROM event";
const NOT_TRUSTED: &str = "signed by an authority that is not trusted here; name that authority in tls.ca";

/// A `tls` line that trusts the authority in this directory.
fn trusting(directory: &Path) -> String {
    format!("tls = {{ ca = {:?} }}", directory.join("ca.pem"))
}

/// The same, and the certificate there is shown.
fn showing(directory: &Path) -> String {
    let file = |name| directory.join(name);
    format!(
        "tls = {{ ca = {:?}, certificate = {:?}, key = {:?} }}",
        file("ca.pem"),
        file("client.crt"),
        file("client.key")
    )
}

/// A directory with the certificate of an authority that signed nothing here.
fn stranger() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("ca.pem"), Authority::new().pem()).expect("a file");
    directory
}

fn event(amount: i64) -> String {
    format!(r#"{{"id":"evt_{amount}","type":"paid","data":{{"amount":{amount}}}}}"#)
}

/// A source `shop` that is a queue; `more` are further lines.
fn consuming(backend: Backend, kind: &str, url: &str, more: &str) -> Setup {
    Setup::new(backend).sources(&format!(
        "[[source]]\nname = \"shop\"\nkind = \"{kind}\"\nurl = \"{url}\"\ndata = \"/data\"\n{more}\n[[source.handler]]\nsql = \"\"\"{EFFECT}\"\"\"\n"
    ))
}

async fn wait_for_effects(app: &TestApp, effects: i64) {
    wait_until(app, &format!("{effects} effects"), async || app.database.effects().await == effects).await;
}

/// What `destinations test` says of a destination that cannot be reached.
fn refusal(app: &TestApp) -> String {
    let tried = app.run(&["destinations", "test", "bus"]);
    assert!(!tried.status.success(), "{}", said(&tried));
    said(&tried)
}

/// What `check` says of a source that cannot be reached.
async fn objection(setup: Setup) -> String {
    let app = setup.start().await;
    wait_until(&app, "the log says why", async || app.log().contains("certificate")).await;
    let checked = app.run(&["check"]);
    assert!(!checked.status.success(), "{}", said(&checked));
    said(&checked)
}

/// Both directions in one test for a store: a broker of its own takes seconds to start.
async fn rabbitmq(backend: Backend) {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(broker) = Broker::with_tls(Kind::RabbitMq, &Authority::new(), directory.path()) else { return };
    let (stranger, url) = (stranger(), &broker.tls_url);
    assert!(url.starts_with("amqps://"), "{url}");
    let (out, queue) = (unique(), unique());
    let rabbit = Rabbit::connect(&broker.url).await;
    rabbit.queue(&out).await;
    rabbit.queue(&queue).await;

    for tls in [trusting(directory.path()), showing(directory.path())] {
        let lines = format!("routing_key = \"{out}\"\n{tls}");
        let app = relaying(backend, url, &lines).start().await;
        write(&app.database, &[("paid", "over TLS")]).await;
        assert_eq!(rabbit.take(&out, 1).await[0].text(), "over TLS");
        wait_for(&app, "sent", 1).await;
    }
    let lines = format!("routing_key = \"{out}\"\n{}", trusting(stranger.path()));
    let said = refusal(&relaying(backend, url, &lines).start().await);
    assert!(said.contains(NOT_TRUSTED), "{said}");
    // Without the setting the machine's authorities judge, which do not know this one.
    let said = refusal(&relaying(backend, url, &format!("routing_key = \"{out}\"")).start().await);
    assert!(said.contains(NOT_TRUSTED), "{said}");
    let elsewhere = url.replace("localhost", "127.0.0.1");
    let lines = format!("routing_key = \"{out}\"\n{}", trusting(directory.path()));
    let said = refusal(&relaying(backend, &elsewhere, &lines).start().await);
    assert!(said.contains("its certificate is for another host"), "{said}");
    assert!(rabbit.rest(&out).await.is_empty(), "nothing came from those who were refused");

    rabbit.publish(&queue, "evt_1", &event(1)).await;
    let queued = |tls: &str| consuming(backend, "amqp", url, &format!("queue = \"{queue}\"\n{tls}"));
    let said = objection(queued(&trusting(stranger.path()))).await;
    assert!(said.contains(NOT_TRUSTED), "{said}");
    assert_eq!(rabbit.ready(&queue).await, 1);
    let app = queued(&trusting(directory.path())).start().await;
    wait_for_effects(&app, 1).await;
}

async fn nats(backend: Backend) {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(broker) = Broker::with_tls(Kind::Nats, &Authority::new(), directory.path()) else { return };
    let (stranger, url) = (stranger(), &broker.tls_url);
    assert!(url.starts_with("tls://"), "{url}");
    let file = |name| directory.path().join(name);
    let (credentials, server) = url.trim_start_matches("tls://").split_once('@').expect("the tests' own URL");
    let (user, password) = credentials.split_once(':').expect("the tests' own URL");
    let client = async_nats::ConnectOptions::with_user_and_password(user.into(), password.into())
        .add_root_certificates(file("ca.pem"))
        .add_client_certificate(file("client.crt"), file("client.key"))
        .require_tls(true)
        .connect(server)
        .await
        .expect("connects");
    let context = jetstream::new(client);
    let name = unique();
    let config = stream::Config {
        name: name.clone(),
        subjects: vec![format!("{name}.>")],
        ..stream::Config::default()
    };
    let mut stored = context.create_stream(config).await.expect("a stream");
    let subject = format!("subject = \"{name}.{{event_type}}\"");

    let relay = |tls: &str| relaying(backend, url, &format!("{subject}\n{tls}"));
    let app = relay(&showing(directory.path())).start().await;
    write(&app.database, &[("paid", &event(1))]).await;
    wait_for(&app, "sent", 1).await;
    let said = refusal(&relay(&trusting(stranger.path())).start().await);
    assert!(said.contains(NOT_TRUSTED), "{said}");
    // This server wants a certificate.
    let said = refusal(&relay(&trusting(directory.path())).start().await);
    assert!(said.contains("tls.certificate"), "{said}");
    assert_eq!(stored.info().await.expect("it is there").state.messages, 1);

    let consumer = format!("stream = \"{name}\"\nqueue = \"hooklatch\"");
    let taking = |tls: &str| consuming(backend, "nats", url, &format!("{consumer}\n{tls}"));
    let said = objection(taking(&trusting(stranger.path()))).await;
    assert!(said.contains(NOT_TRUSTED), "{said}");
    let app = taking(&showing(directory.path())).start().await;
    wait_for_effects(&app, 1).await;
}

on_both_stores! {
    async fn rabbitmq_behind_tls_is_reached_by_who_trusts_its_authority_and_nobody_else(backend: Backend) {
        rabbitmq(backend).await;
    }

    async fn nats_behind_tls_is_reached_by_who_trusts_its_authority_and_shows_a_certificate(backend: Backend) {
        nats(backend).await;
    }
}
