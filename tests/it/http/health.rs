//! Whether the process lives, and whether to send it deliveries.

use std::time::Duration;

use super::Servers;
use crate::support::http::{self, Request};

#[tokio::test(flavor = "multi_thread")]
async fn both_servers_say_that_the_process_lives_without_a_token() {
    let servers = Servers::start().await;
    for address in [servers.public, servers.admin] {
        let answer = http::send(address, &Request::new("GET", "/healthz")).await.expect("answers");
        assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"status":"ok"}"#));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_says_that_it_is_not_ready() {
    let servers = Servers::start().await;
    assert_eq!(servers.send(&Request::new("GET", "/readyz")).await.status, 200);
    servers.state.set_ready(false);
    servers.send(&Request::new("GET", "/readyz")).await.expect_problem(503, "not-ready");
    servers.deliver(super::event("e1", "order")).await.expect(200, "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_its_database_says_that_it_is_not_ready() {
    let servers = Servers::start().await;
    servers.store.close().await;
    // An answer of the database is good for a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    servers.send(&Request::new("GET", "/readyz")).await.expect_problem(503, "not-ready");
    assert_eq!(servers.send(&Request::new("GET", "/healthz")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_read_only() {
    let servers = Servers::start().await;
    for target in ["/healthz", "/readyz"] {
        let answer = servers.send(&Request::post(target, "")).await;
        answer.expect_problem(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
}
