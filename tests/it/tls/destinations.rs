//! An HTTPS destination with an authority of its own, which asks for a certificate: a hooklatch that relays
//! to another one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Site;
use crate::support::app::{TestApp, order, said};
use crate::support::certificates::Authority;
use crate::support::{Backend, Setup, TestDatabase};

const PATIENCE: Duration = Duration::from_secs(30);
const NOT_TRUSTED: &str = "signed by an authority that is not trusted here; name that authority in tls.ca";

async fn wait_until(app: &TestApp, what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "not in time: {what}\n{}", app.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A receiver whose source asks for a certificate, and what a relay to it writes for a destination `next`.
async fn receiver(site: &Site) -> (TestApp, String) {
    let source = "[[source]]\nname = \"relayed\"\nverify = { scheme = \"mtls\", allow_names = [\"relay.example.com\"] }\n[[source.handler]]\nsql = \"INSERT INTO effects (source, event_id) SELECT source, id FROM event\"\n";
    let receiver = site.setup(true).and_source(source).start_on(site.database.clone()).await;
    let port = receiver.public().port();
    let destination = format!(
        "[[destination]]\nname = \"next\"\nurl = \"https://localhost:{port}/hooks/relayed\"\nbackoff_longest = \"1s\"\nbreaker_pause = \"10ms\"\n"
    );
    (receiver, destination)
}

async fn write(database: &TestDatabase, id: &str) {
    database
        .execute(&format!("INSERT INTO outbox (destination, payload) VALUES ('next', '{}')", order(id)))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_is_believed_by_its_own_authority_which_is_read_again_as_it_changes() {
    let site = Site::new(Backend::Sqlite).await;
    let (receiver, destination) = receiver(&site).await;
    let database = Arc::new(TestDatabase::new(Backend::Sqlite).await);
    let directory = database.directory();
    let ca = directory.join("ca.pem");
    std::fs::write(&ca, Authority::new().pem()).expect("a file");
    let (certificate, key) = site.theirs.issue("relay", &["relay.example.com"]).write(&directory, "client");
    let tls = format!("tls = {{ ca = {ca:?}, certificate = {certificate:?}, key = {key:?} }}\n");
    let relay = Setup::new(Backend::Sqlite)
        .command(&["relay"])
        .sources(&format!("{destination}{tls}"))
        .set("relay.poll_every", "\"50ms\"")
        .start_on(database)
        .await;
    write(&relay.database, "evt_1").await;
    let why = "SELECT coalesce(max(last_error), '') FROM outbox";
    wait_until(&relay, "it was tried in vain", async || {
        relay.database.column(why).await.concat().contains(NOT_TRUSTED)
    })
    .await;
    let checked = relay.run(&["check"]);
    assert!(said(&checked).contains(NOT_TRUSTED), "{}", said(&checked));
    assert_eq!(receiver.database.effects_of("evt_1").await, 0);

    std::fs::write(&ca, site.ours.pem()).expect("a file");
    wait_until(&relay, "the right authority is read", async || {
        receiver.database.effects_of("evt_1").await == 1
    })
    .await;
    let checked = relay.run(&["check"]);
    assert!(said(&checked).contains("has a certificate for localhost"), "{}", said(&checked));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_wants_a_certificate_gets_ours_and_no_message_without() {
    let site = Site::new(Backend::Sqlite).await;
    let (receiver, destination) = receiver(&site).await;
    let database = Arc::new(TestDatabase::new(Backend::Sqlite).await);
    let ca = database.directory().join("ca.pem");
    std::fs::write(&ca, site.ours.pem()).expect("a file");
    let relay = Setup::new(Backend::Sqlite)
        .command(&["relay"])
        .sources(&format!("{destination}tls = {{ ca = {ca:?} }}\n"))
        .set("relay.poll_every", "\"50ms\"")
        .start_on(database)
        .await;
    write(&relay.database, "evt_1").await;
    wait_until(&relay, "it was refused", async || {
        relay
            .database
            .number("SELECT CAST(max(attempts) AS bigint) FROM outbox WHERE last_status = 401")
            .await
            >= 1
    })
    .await;
    assert_eq!(receiver.database.effects_of("evt_1").await, 0);
}
