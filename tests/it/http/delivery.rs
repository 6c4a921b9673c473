//! What the sender gets, and what a delivery leaves behind.

use std::time::Duration;

use super::{Servers, event};
use crate::support::http::{Connection, Request};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_handler_goes_out_byte_for_byte_and_again_when_replayed() {
    let servers = Servers::start().await;
    let first = servers.deliver(event("e1", "curt")).await;
    first.expect(202, "applied");
    assert_eq!(first.body, b"\x00\xFFdone");
    assert_eq!(first.header("x-desk"), Some("7"));
    assert!(!first.is_replay());
    let again = servers.deliver(event("e1", "curt")).await;
    again.expect(202, "replayed");
    assert!(again.is_replay());
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("x-desk"), first.header("x-desk"));
    assert_eq!(servers.applied(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_id_of_an_answer_leads_to_its_ledger_entry() {
    let servers = Servers::start().await;
    let answer = servers.deliver(event("e1", "order")).await;
    let entry = &servers.ledger("event_id=e1", 1).await[0];
    assert_eq!(entry["delivery_id"].as_str(), answer.header("x-request-id"));
    assert_eq!(entry["outcome"], "applied");
    assert_eq!(entry["status"], 200);
    assert_eq!(entry["event_type"], "order");
    assert_eq!(entry["peer"], "127.0.0.1");
    assert_eq!(entry["body_bytes"], event("e1", "order").len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_refused_signature_is_in_the_ledger_and_not_in_the_answer() {
    let servers = Servers::start().await;
    let answer = servers.send(&Request::post("/hooks/signed", event("e1", "order"))).await;
    answer.expect(401, "unverified").expect_problem(401, "signature-invalid");
    assert!(!answer.text().contains("webhook-"), "{}", answer.text());
    let entry = &servers.ledger("source=signed", 1).await[0];
    assert!(entry["reason"].as_str().is_some_and(|reason| reason.contains("webhook-")), "{entry}");
    assert!(entry["event_id"].is_null(), "nothing is known of an unverified event: {entry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_envelope_is_explained_to_the_sender() {
    let servers = Servers::start().await;
    let answer = servers.deliver("{\"id\":1").await;
    answer.expect(400, "malformed").expect_problem(400, "malformed-body");
    assert!(answer.json()["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", answer.text());
    servers.ledger("outcome=malformed", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_below_hooks_carries_outcome_and_request_id() {
    let servers = Servers::start().await;
    let gzip = Request::post("/hooks/shop", event("e1", "order")).header("content-encoding", "gzip");
    for (request, status) in [
        (Request::post("/hooks/nobody", "{}"), 404),
        (Request::post("/hooks", "{}"), 404),
        (Request::post("/hooks/shop/more", "{}"), 404),
        (Request::new("GET", "/hooks/shop"), 405),
        (Request::new("PUT", "/hooks/nobody"), 405),
        (gzip, 415),
        (Request::post("/hooks/shop", ""), 400),
    ] {
        let answer = servers.send(&request).await;
        answer.expect(status, "malformed");
        assert_eq!(answer.header("x-request-id").map(str::len), Some(36), "{}", request.target);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    let elsewhere = servers.send(&Request::post("/elsewhere", "{}")).await;
    elsewhere.expect_problem(404, "not-found");
    assert_eq!(elsewhere.header("hooklatch-outcome"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_sender_hangs_up_is_applied_and_stands_in_the_ledger() {
    let servers = Servers::start().await;
    let mut connection = Connection::open(servers.public).await.expect("connects");
    connection.write(&Request::post("/hooks/shop", event("e1", "slow")).bytes()).await.expect("writes");
    tokio::time::sleep(Duration::from_millis(100)).await;
    connection.reset();
    assert_eq!(servers.ledger("event_id=e1", 1).await[0]["outcome"], "applied");
    assert_eq!(servers.applied(), 1);
    servers.deliver(event("e1", "slow")).await.expect(200, "replayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_counted_by_source_and_outcome() {
    let servers = Servers::start().await;
    servers.deliver(event("e1", "order")).await;
    servers.deliver(event("e1", "order")).await;
    servers.send(&Request::post("/hooks/no-such-name", "{}")).await;
    let text = servers.operate("GET", "/metrics").await.text();
    for line in [
        "hooklatch_deliveries_total{source=\"shop\",outcome=\"applied\"} 1",
        "hooklatch_deliveries_total{source=\"shop\",outcome=\"replayed\"} 1",
        "hooklatch_deliveries_total{source=\"unknown\",outcome=\"malformed\"} 1",
        "hooklatch_events_total{source=\"shop\",outcome=\"applied\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("no-such-name"), "a sender must not make series");
}
