//! Bodies that are too large, too slow, too many, or not read at all.

use std::time::Duration;

use hooklatch::http::Limits;

use super::{Servers, event};
use crate::support::http::{Answer, Connection, Request};

const CHUNK: usize = 0x1000;

fn chunked_head(target: &str) -> Vec<u8> {
    Request::new("POST", target).header("transfer-encoding", "chunked").head()
}

fn chunk() -> Vec<u8> {
    format!("{CHUNK:x}\r\n{}\r\n", "x".repeat(CHUNK)).into_bytes()
}

/// Sends chunks until the other side has had enough.
async fn stream_until_cut(connection: &mut Connection) {
    let chunk = chunk();
    while connection.write(&chunk).await.is_ok() {}
}

async fn told(connection: &mut Connection) -> Answer {
    connection.answer().await.expect("answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_announced_too_large_is_refused_unread_and_the_connection_ends() {
    let servers = Servers::start().await;
    for target in ["/hooks/shop", "/hooks/signed", "/hooks/nobody"] {
        let mut connection = Connection::open(servers.public).await.expect("connects");
        let announced = Request::new("POST", target).header("content-length", "27262976");
        connection.write(&announced.head()).await.expect("writes");
        told(&mut connection).await.expect(413, "malformed").expect_problem(413, "body-too-large");
        assert!(connection.is_closed_within(Duration::from_secs(10)).await, "{target}");
    }
    assert_eq!(servers.ledger("source=shop", 1).await[0]["body_bytes"], 27_262_976);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_is_cut_when_it_crosses_the_limit() {
    let limits = Limits { max_body_bytes: 4 * CHUNK, ..Limits::default() };
    let servers = Servers::start_with(limits).await;
    let mut connection = Connection::open(servers.public).await.expect("connects");
    connection.write(&chunked_head("/hooks/shop")).await.expect("writes");
    for _ in 0..5 {
        connection.write(&chunk()).await.expect("writes");
    }
    let answer = told(&mut connection).await;
    answer.expect(413, "malformed");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(connection.is_closed_within(Duration::from_secs(10)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_body_to_nobody_is_not_drained_for_ever() {
    let servers = Servers::start().await;
    for head in [
        chunked_head("/hooks/nobody"),
        chunked_head("/nothing"),
        Request::new("PUT", "/hooks/shop").header("transfer-encoding", "chunked").head(),
        Request::new("POST", "/healthz").header("transfer-encoding", "chunked").head(),
    ] {
        let mut connection = Connection::open(servers.public).await.expect("connects");
        connection.write(&head).await.expect("writes");
        let answer = told(&mut connection).await;
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
        let cut = tokio::time::timeout(Duration::from_secs(20), stream_until_cut(&mut connection)).await;
        assert!(cut.is_ok(), "the connection goes on for ever");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_whose_body_was_sent_whole_keeps_its_connection() {
    let servers = Servers::start().await;
    let mut connection = Connection::open(servers.public).await.expect("connects");
    for _ in 0..3 {
        connection
            .send(&Request::post("/hooks/nobody", "{}"))
            .await
            .expect("answers")
            .expect(404, "malformed");
    }
    connection
        .send(&Request::post("/hooks/shop", event("e1", "order")))
        .await
        .expect("answers")
        .expect(200, "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stops_coming_is_given_up() {
    let limits = Limits { body_timeout: Duration::from_millis(300), ..Limits::default() };
    let servers = Servers::start_with(limits).await;
    let mut connection = Connection::open(servers.public).await.expect("connects");
    let stalled = Request::post("/hooks/shop", event("e1", "order"));
    connection.write(&stalled.head()).await.expect("writes");
    connection.write(&stalled.body[..5]).await.expect("writes");
    told(&mut connection).await.expect(408, "malformed").expect_problem(408, "body-timeout");
    assert_eq!(servers.applied(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_together_hold_too_much_are_put_off_and_room_comes_back() {
    let limits = Limits {
        max_body_bytes: 10 * CHUNK,
        max_buffered_bytes: 10 * CHUNK,
        body_timeout: Duration::from_secs(30),
    };
    let servers = Servers::start_with(limits).await;
    let mut hoarder = Connection::open(servers.public).await.expect("connects");
    hoarder.write(&chunked_head("/hooks/shop")).await.expect("writes");
    for _ in 0..9 {
        hoarder.write(&chunk()).await.expect("writes");
    }
    let large = format!(r#"{{"id":"e1","pad":"{}"}}"#, "x".repeat(2 * CHUNK));
    // The hoarder's bytes are on their way.
    let refused = loop {
        let answer = servers.deliver(large.clone().replace("e1", "probe")).await;
        if answer.status != 200 {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    refused.expect(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    servers.deliver(event("small", "order")).await.expect(200, "applied");
    hoarder.reset();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while servers.deliver(large.clone()).await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "the room did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
