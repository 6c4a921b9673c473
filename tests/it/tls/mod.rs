//! TLS that hooklatch ends itself, over real sockets, with certificates made for the test.

mod check;
mod clients;
mod destinations;
mod exchange;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::version::{TLS12, TLS13};

use crate::support::app::{BODY_MARKER, order};
use crate::support::certificates::Authority;
use crate::support::http::Connection;
use crate::support::tls::TlsClient;
use crate::support::{Backend, Request, Setup, TestDatabase};

/// A test's own authorities, files and database.
struct Site {
    database: Arc<TestDatabase>,
    directory: PathBuf,
    /// Of our certificate.
    ours: Authority,
    /// Of clients' certificates.
    theirs: Authority,
}

impl Site {
    async fn new(backend: Backend) -> Self {
        let database = Arc::new(TestDatabase::new(backend).await);
        let directory = database.directory();
        let site = Self { directory, database, ours: Authority::new(), theirs: Authority::new() };
        site.ours.issue("localhost", &["localhost"]).write(&site.directory, "tls");
        std::fs::write(site.directory.join("clients.pem"), site.theirs.pem()).expect("can be written");
        site
    }

    /// `http.tls` over the files of the site; `clients`: with their authority.
    fn setup(&self, clients: bool) -> Setup {
        Setup::new(Backend::Sqlite).set("http.tls", &tls(&self.directory, clients))
    }
}

fn tls(directory: &Path, clients: bool) -> String {
    let directory = directory.display();
    let clients = if clients { format!(", client_ca = \"{directory}/clients.pem\"") } else { String::new() };
    format!(
        "{{ certificate = \"{directory}/tls.crt\", key = \"{directory}/tls.key\"{clients}, handshake_timeout = \"1s\" }}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_are_taken_over_tls_1_2_and_1_3_and_not_without() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(false).start_on(site.database.clone()).await;
    for (version, id) in [(&TLS12, "evt_12"), (&TLS13, "evt_13")] {
        let client = TlsClient::with(&site.ours, None, &[version]);
        let mut connection = client.open(app.public()).await.expect("a handshake");
        for outcome in ["applied", "replayed"] {
            let answer = connection.send(&Request::post("/hooks/shop", order(id))).await.expect("an answer");
            answer.expect(200, outcome);
        }
        assert_eq!(app.database.effects_of(id).await, 1);
    }
    let mut plain = Connection::open(app.public()).await.expect("connects");
    plain.write(&Request::post("/hooks/shop", order("evt_plain")).bytes()).await.expect("writes");
    assert!(plain.answer().await.is_err(), "plain HTTP is not spoken");
    assert_eq!(app.database.effects_of("evt_plain").await, 0);
    assert!(!app.log().contains(BODY_MARKER));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_2_is_not_offered() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(false).start_on(site.database.clone()).await;
    let stream = TlsClient::new(&site.ours).stream(app.public()).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_trust_us_is_not_deceived() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(false).start_on(site.database.clone()).await;
    assert!(TlsClient::new(&Authority::new()).stream(app.public()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_never_ends_is_given_up_and_is_in_nobodys_way() {
    let site = Site::new(Backend::Sqlite).await;
    let app = site.setup(false).start_on(site.database.clone()).await;
    let started = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(Connection::open(app.public()).await.expect("connects"));
    }
    let request = Request::post("/hooks/shop", order("evt_1"));
    let answer = TlsClient::new(&site.ours).send(app.public(), &request).await;
    answer.expect("an answer").expect(200, "applied");
    for connection in &mut silent {
        assert!(connection.is_closed_within(Duration::from_secs(10)).await);
    }
    assert!(started.elapsed() >= Duration::from_millis(900), "not before the time is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_listener_ends_tls_too_and_can_demand_a_certificate() {
    let site = Site::new(Backend::Sqlite).await;
    let setup = Setup::new(Backend::Sqlite).set("admin.tls", &tls(&site.directory, true));
    let app = setup.start_on(site.database.clone()).await;
    let request = Request::new("GET", "/healthz");
    let operator = site.theirs.issue("operator", &[]);
    let answer = TlsClient::showing(&site.ours, &operator).send(app.admin(), &request).await;
    assert_eq!(answer.expect("an answer").status, 200);
    assert!(
        TlsClient::new(&site.ours).send(app.admin(), &request).await.is_err(),
        "no certificate, no answer"
    );
    app.deliver("shop", order("evt_1")).await.expect(200, "applied");
}
