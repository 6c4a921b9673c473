//! What `deploy/` says is true of the program.

use std::path::Path;

use crate::support::app::said;
use crate::support::certificates::Authority;
use crate::support::{Backend, Setup, TestDatabase};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The configuration of the compose file passes `check`, against the tables it comes with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deployed_configuration_works() {
    let database = std::sync::Arc::new(TestDatabase::new(Backend::Postgres).await);
    database.execute(&read("deploy/postgres/orders.sql")).await;
    let app = Setup::new(Backend::Postgres).start_on(database.clone()).await;
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/hooklatch.toml");
    let checked = std::process::Command::new(crate::support::app::PROGRAM)
        .args(["check", "--config"])
        .arg(config)
        .env("HOOKLATCH__DATABASE__URL", &database.url)
        .env("HOOKLATCH_ADMIN_TOKEN", "a-token")
        .env("SHOP_SECRET", "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0ISE=")
        .output()
        .expect("the program can be run");
    assert!(checked.status.success(), "{}", said(&checked));
    drop(app);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_of_the_alerts_exists() {
    let destination = "[[destination]]\nname = \"crm\"\nurl = \"http://127.0.0.1:9/\"\n";
    let database = std::sync::Arc::new(TestDatabase::new(Backend::Sqlite).await);
    let (certificate, key) =
        Authority::new().issue("localhost", &["localhost"]).write(&database.directory(), "tls");
    let tls = format!("{{ certificate = {certificate:?}, key = {key:?} }}");
    // Nothing listens there, and the process says so.
    let queue =
        "[[source]]\nname = \"queue\"\nkind = \"amqp\"\nurl = \"amqp://127.0.0.1:9\"\nqueue = \"q\"\n";
    let more = format!("{queue}{destination}");
    let setup = Setup::new(Backend::Sqlite).set("http.tls", &tls).and_source(&more);
    let app = setup.start_on(database).await;
    app.logs("no messages are taken", 1).await;
    let exposed = app.admin_get("/metrics").await.text();
    let rules = read("deploy/prometheus/hooklatch.rules.yaml");
    let mut named: Vec<&str> = rules
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("hooklatch_"))
        .collect();
    named.sort_unstable();
    named.dedup();
    assert!(named.len() > 5, "{named:?}");
    for metric in named {
        let family = metric.trim_end_matches("_bucket").trim_end_matches("_total");
        assert!(exposed.contains(&format!("# TYPE {family} ")), "{metric} is not exposed:\n{exposed}");
    }
}
