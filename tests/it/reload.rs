//! The configuration, read again by the running program.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::support::app::{TestApp, order};
use crate::support::http::Connection;
use crate::support::on_both_stores;
use crate::support::signing::hmac_hex;
use crate::support::{Backend, Request, Setup, TestDatabase, http};

const OLD: &str = "never-log-this-secret-old";
const NEW: &str = "never-log-this-secret-new";

fn signed(name: &str, secrets: &str) -> String {
    format!(
        r#"
[[source]]
name = "{name}"
verify = {{ scheme = "hmac", header = "x-signature", secrets = [{secrets}] }}
event_id = "body:/id"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#
    )
}

fn delivery(source: &str, id: &str, secret: &str) -> Request {
    let body = order(id);
    let signature = hmac_hex(secret, body.as_bytes());
    Request::post(&format!("/hooks/{source}"), body).header("x-signature", signature)
}

/// Senders that never pause, each of whose deliveries must be applied.
struct Load {
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    uses_new_secret: Arc<AtomicBool>,
    senders: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let mut load = Self {
            over: Arc::default(),
            sent: Arc::default(),
            uses_new_secret: Arc::default(),
            senders: Vec::new(),
        };
        for source in ["shop", "signed", "signed"] {
            let (over, sent, uses_new) = (load.over.clone(), load.sent.clone(), load.uses_new_secret.clone());
            load.senders.push(tokio::spawn(async move {
                let mut connection = Connection::open(address).await.expect("connects");
                while !over.load(Ordering::Relaxed) {
                    let id = format!("evt_{}", sent.fetch_add(1, Ordering::Relaxed));
                    let secret = if uses_new.load(Ordering::Relaxed) { NEW } else { OLD };
                    let answer = connection.send(&delivery(source, &id, secret)).await;
                    answer.expect("an answer, always").expect(200, "applied");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }));
        }
        load
    }

    /// How many were sent, every one with success.
    async fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        for sender in self.senders {
            sender.await.expect("no delivery failed");
        }
        self.sent.load(Ordering::Relaxed)
    }
}

async fn metric(app: &TestApp, line: &str) {
    let metrics = app.admin_get("/metrics").await.text();
    assert!(metrics.contains(&format!("{line}\n")), "{line} is not in\n{metrics}");
}

on_both_stores! {
    async fn a_secret_is_rotated_under_load_through_a_broken_file_and_no_delivery_fails(backend: Backend) {
        let database = Arc::new(TestDatabase::new(backend).await);
        let file = database.directory().join("secret");
        let reference = format!("\"file:{}\"", file.display());
        std::fs::write(&file, OLD).expect("can be written");
        let setup = Setup::new(backend).and_source(&signed("signed", &reference));
        let app = setup.start_on(database).await;
        let load = Load::start(app.public());

        // The new secret beside the old one: in the configuration, then in the file.
        let both = format!("{reference}, \"{NEW}\"");
        app.edit_config(|text| text.replace(&reference, &both));
        app.logs("configuration read again and put to use", 1).await;
        load.uses_new_secret.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(300)).await;

        app.edit_config(|text| text.replace("name = \"signed\"", "name = \"signed"));
        app.logs("the configuration in use stays", 1).await;
        metric(&app, "hooklatch_last_reload_successful{what=\"configuration\"} 0").await;
        // It serves, so that nobody should take it out of service.
        assert_eq!(app.send(&Request::new("GET", "/readyz")).await.status, 200);
        // With an expiry in the past it would accept nobody; a missing file says so.
        app.edit_config(|text| text.replace("name = \"signed", "name = \"signed\"").replace(&reference, "\"file:/nowhere\""));
        app.logs("/nowhere cannot be read", 1).await;
        metric(&app, "hooklatch_reloads_total{what=\"configuration\",result=\"refused\"} 2").await;

        std::fs::write(&file, NEW).expect("can be written");
        app.edit_config(|text| text.replace(&format!("\"file:/nowhere\", \"{NEW}\""), &reference));
        app.logs("configuration read again and put to use", 2).await;
        metric(&app, "hooklatch_last_reload_successful{what=\"configuration\"} 1").await;
        metric(&app, "hooklatch_reloads_total{what=\"configuration\",result=\"applied\"} 2").await;

        let sent = load.end().await;
        assert!(sent > 200, "{sent} deliveries are no load");
        assert_eq!(app.database.effects().await, i64::try_from(sent).expect("few"));
        app.send(&delivery("signed", "evt_old", OLD)).await.expect(401, "unverified");
        app.send(&delivery("signed", "evt_new", NEW)).await.expect(200, "applied");
    }

    async fn a_secret_whose_file_alone_changes_is_taken_over(backend: Backend) {
        let database = Arc::new(TestDatabase::new(backend).await);
        let file = database.directory().join("secret");
        std::fs::write(&file, OLD).expect("can be written");
        let reference = format!("\"file:{}\"", file.display());
        let app = Setup::new(backend).and_source(&signed("signed", &reference)).start_on(database).await;
        app.send(&delivery("signed", "evt_1", OLD)).await.expect(200, "applied");
        // Replaced as a whole, the way mounted secrets are.
        let beside = file.with_extension("new");
        std::fs::write(&beside, format!("{NEW}\n")).expect("can be written");
        std::fs::rename(&beside, &file).expect("can be renamed");
        app.logs("configuration read again and put to use", 1).await;
        app.send(&delivery("signed", "evt_2", OLD)).await.expect(401, "unverified");
        app.send(&delivery("signed", "evt_2", NEW)).await.expect(200, "applied");
        // Emptied: the one in use stays.
        std::fs::write(&file, "").expect("can be written");
        app.logs("the configuration in use stays", 1).await;
        app.send(&delivery("signed", "evt_3", NEW)).await.expect(200, "applied");
    }

    async fn sources_come_and_go_on_sighup(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("other", order("evt_1")).await.expect_problem(404, "unknown-source");
        app.edit_config(|text| text.replace("name = \"shop\"", "name = \"other\""));
        app.signal("HUP");
        app.logs("configuration read again and put to use", 1).await;
        app.deliver("other", order("evt_1")).await.expect(200, "applied");
        app.deliver("shop", order("evt_2")).await.expect_problem(404, "unknown-source");
        let sources = app.admin_get("/api/v1/sources").await.text();
        assert!(sources.contains("\"other\"") && !sources.contains("\"shop\""), "{sources}");
        metric(&app, "hooklatch_deliveries_total{source=\"other\",outcome=\"applied\"} 1").await;
    }

    async fn a_new_statement_that_the_database_refuses_changes_nothing(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.edit_config(|text| text.replace("INSERT INTO effects", "INSERT INTO effectz"));
        app.logs("the configuration in use stays", 1).await;
        assert!(app.log().contains("effectz"), "{}", app.log());
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_a_restart_is_named_and_the_rest_is_taken_over() {
    let app = Setup::new(Backend::Sqlite).set("inbox.queue", "100").start().await;
    app.edit_config(|text| {
        text.replace("inbox.queue = 100", "inbox.queue = 200\nhttp.max_body_bytes = 2000")
            .replace("name = \"shop\"", "name = \"renamed\"")
    });
    app.logs("count after a restart only", 1).await;
    let log = app.log();
    let warning = log.lines().find(|line| line.contains("count after a restart only")).unwrap_or_default();
    for key in ["http.max_body_bytes", "inbox.queue"] {
        assert!(warning.contains(key), "{warning}");
    }
    assert!(!warning.contains("source["), "{warning}");
    app.deliver("renamed", order("evt_1")).await.expect(200, "applied");
    app.deliver("renamed", vec![b' '; 3000]).await.expect_problem(400, "malformed-body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_token_is_exchanged() {
    let app = Setup::new(Backend::Sqlite).start().await;
    app.edit_config(|text| text.replace("never-log-this-token", "never-log-this-token-2"));
    app.logs("configuration read again and put to use", 1).await;
    for (token, status) in [("never-log-this-token", 401), ("never-log-this-token-2", 200)] {
        let request = Request::new("GET", "/metrics").header("authorization", format!("Bearer {token}"));
        assert_eq!(http::send(app.admin(), &request).await.expect("an answer").status, status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_the_running_listener_cannot_serve_changes_nothing() {
    let app = Setup::new(Backend::Sqlite).start().await;
    app.edit_config(|text| {
        let tls = "http.tls = { certificate = \"a\", key = \"b\", client_ca = \"c\" }\n";
        tls.to_owned() + &text.replace("scheme = \"none\"", "scheme = \"mtls\"")
    });
    app.logs("mtls needs http.tls with client_ca, which the running listener lacks", 1).await;
    app.deliver("shop", order("evt_1")).await.expect(200, "applied");
}
