//! What operators see and do.

use std::sync::atomic::Ordering;

use super::{SECRET, Servers, TOKEN, event};
use crate::support::http::{self, Request};

const ALL: [(&str, &str); 12] = [
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/api/v1/deliveries"),
    ("GET", "/api/v1/events/e1"),
    ("DELETE", "/api/v1/events/shop/e1"),
    ("GET", "/api/v1/dead-letters"),
    ("GET", "/api/v1/dead-letters/0190a0b0-0000-7000-8000-000000000000"),
    ("POST", "/api/v1/dead-letters/0190a0b0-0000-7000-8000-000000000000/retry"),
    ("DELETE", "/api/v1/dead-letters/0190a0b0-0000-7000-8000-000000000000"),
    ("GET", "/api/v1/sources"),
    ("GET", "/nothing"),
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_or_done_without_the_token() {
    let servers = Servers::start().await;
    servers.deliver(event("e1", "order")).await;
    for (method, target) in ALL {
        for credentials in [None, Some("Bearer wrong"), Some(TOKEN), Some("Basic")] {
            let mut request = Request::new(method, target);
            if let Some(credentials) = credentials {
                request = request.header("authorization", credentials);
            }
            let answer = http::send(servers.admin, &request).await.expect("answers");
            answer.expect_problem(401, "unauthorized");
            assert!(
                answer.header("www-authenticate").is_some_and(|challenge| challenge.starts_with("Bearer"))
            );
        }
        assert_ne!(servers.operate(method, target).await.status, 401, "{method} {target}");
    }
    servers.deliver(event("e1", "order")).await.expect(200, "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_an_event_is_inbox_ledger_and_dead_letters_together() {
    let servers = Servers::start().await;
    servers.deliver(event("e1", "order")).await;
    servers.deliver(event("e1", "order")).await;
    servers.ledger("event_id=e1", 2).await;
    let history = servers.operate("GET", "/api/v1/events/e1").await.json();
    assert_eq!(history["events"][0]["state"], "applied");
    assert_eq!(history["events"][0]["consumer"], "shop");
    let outcomes: Vec<_> =
        history["deliveries"].as_array().expect("a list").iter().map(|d| &d["outcome"]).collect();
    assert_eq!(outcomes, ["replayed", "applied"], "newest first");
    servers.operate("GET", "/api/v1/events/other").await.expect_problem(404, "not-found");
    servers.operate("GET", "/api/v1/events/e1?consumer=signed").await.expect_problem(404, "not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_id_of_any_characters_can_be_looked_up_and_forgotten() {
    let servers = Servers::start().await;
    let (id, encoded) = ("a/b c?d%2F#é", "a%2Fb%20c%3Fd%252F%23%C3%A9");
    servers.deliver(event(id, "order")).await.expect(200, "applied");
    let history = servers.operate("GET", &format!("/api/v1/events/{encoded}")).await.json();
    assert_eq!(history["events"][0]["event_id"], id);
    let target = format!("/api/v1/events/shop/{encoded}");
    assert_eq!(servers.operate("DELETE", &target).await.status, 204);
    servers.operate("DELETE", &target).await.expect_problem(404, "not-found");
    servers.deliver(event(id, "order")).await.expect(200, "applied");
    assert_eq!(servers.applied(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_shown_mended_and_applied_once() {
    let servers = Servers::start().await;
    let letter =
        Request::post("/hooks/shop?x=1", event("e1", "fragile")).header("authorization", "Bearer sender");
    servers.send(&letter).await.expect(422, "rejected");
    let listed = servers.operate("GET", "/api/v1/dead-letters").await.json();
    let id = listed["dead_letters"][0]["id"].as_str().expect("an id").to_owned();
    let shown = servers.operate("GET", &format!("/api/v1/dead-letters/{id}")).await;
    assert_eq!(shown.json()["body"], event("e1", "fragile"));
    assert_eq!(shown.json()["target"], "/hooks/shop?x=1");
    assert!(shown.json()["reason"].as_str().is_some_and(|reason| reason.contains("the desk is broken")));
    assert!(!shown.text().contains("Bearer sender"), "credentials are not shown");

    let retry = format!("/api/v1/dead-letters/{id}/retry");
    let still_broken = servers.operate("POST", &retry).await;
    assert_eq!(still_broken.status, 200, "{}", still_broken.text());
    assert_eq!(still_broken.json()["outcome"], "rejected");
    servers.desk.is_mended.store(true, Ordering::SeqCst);
    let mended = servers.operate("POST", &retry).await;
    assert_eq!((mended.status, &mended.json()["outcome"]), (200, &"applied".into()), "{}", mended.text());
    servers.operate("POST", &retry).await.expect_problem(404, "not-found");
    assert_eq!(servers.applied(), 1);
    servers.deliver(event("e1", "fragile")).await.expect(200, "replayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_can_be_discarded() {
    let servers = Servers::start().await;
    servers.deliver(event("e1", "fragile")).await.expect(422, "rejected");
    let listed = servers.operate("GET", "/api/v1/dead-letters?source=shop").await.json();
    let target = format!("/api/v1/dead-letters/{}", listed["dead_letters"][0]["id"].as_str().expect("an id"));
    assert_eq!(servers.operate("DELETE", &target).await.status, 204);
    servers.operate("GET", &target).await.expect_problem(404, "not-found");
    servers.operate("DELETE", &target).await.expect_problem(404, "not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_ledger_follow_each_other_without_gap_or_overlap() {
    let servers = Servers::start().await;
    for n in 0..7 {
        servers.deliver(event(&format!("e{n}"), "order")).await;
    }
    servers.ledger("limit=100", 7).await;
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = servers.operate("GET", &format!("/api/v1/deliveries?limit=3{next}")).await.json();
        let entries = page["deliveries"].as_array().expect("a list").clone();
        seen.extend(entries.iter().map(|entry| entry["event_id"].as_str().unwrap_or("").to_owned()));
        match page["next"].as_str() {
            Some(id) => next = format!("&before={id}"),
            None => break,
        }
    }
    assert_eq!(seen, ["e6", "e5", "e4", "e3", "e2", "e1", "e0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_with_the_reason() {
    let servers = Servers::start().await;
    for target in [
        "/api/v1/deliveries?outcome=fine",
        "/api/v1/deliveries?since=yesterday",
        "/api/v1/deliveries?limit=-1",
        "/api/v1/deliveries?before=1",
        "/api/v1/deliveries?sauce=shop",
        "/api/v1/dead-letters?after=x",
    ] {
        let answer = servers.operate("GET", target).await;
        answer.expect_problem(400, "malformed-request");
        assert!(answer.json()["detail"].is_string(), "{target}: {}", answer.text());
    }
    servers.operate("GET", "/api/v1/dead-letters/7").await.expect_problem(404, "not-found");
    let wrong = servers.operate("PUT", "/api/v1/sources").await;
    wrong.expect_problem(405, "method-not-allowed");
    assert_eq!(wrong.header("allow"), Some("GET"));
    servers.operate("POST", "/metrics").await.expect_problem(405, "method-not-allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_sources_shows_no_secret() {
    let servers = Servers::start().await;
    let answer = servers.operate("GET", "/api/v1/sources").await;
    assert_eq!(answer.json()["sources"][1]["path"], "/hooks/signed");
    assert_eq!(answer.json()["sources"][0]["handlers"][0]["kind"], "code");
    assert!(!answer.text().contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_interface_is_served_for_programs_and_for_people() {
    let servers = Servers::start().await;
    assert_eq!(servers.operate("GET", "/openapi.json").await.json()["info"]["title"], "hooklatch");
    let page = servers.operate("GET", "/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains("/hooks/{source}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_said_so() {
    let servers = Servers::start().await;
    servers.store.close().await;
    servers.operate("GET", "/api/v1/deliveries").await.expect_problem(503, "database-unavailable");
}
