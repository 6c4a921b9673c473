//! Framing, sizes, header names, and senders that go away.

use std::time::Duration;

use super::{GITHUB, all_at_once, github};
use crate::support::app::{BODY_MARKER, order};
use crate::support::http::Connection;
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

const LIMIT: usize = 100_000;
const MIB: u64 = 1024 * 1024;

/// A valid event of exactly this many bytes.
fn order_of(bytes: usize, id: &str) -> String {
    let frame = format!(r#"{{"id":"{id}","data":{{"amount":1,"note":"{BODY_MARKER}"}},"pad":""}}"#);
    format!("{}{}\"}}", &frame[..frame.len() - 2], "x".repeat(bytes - frame.len()))
}

fn chunked(request: Request, chunk: usize) -> Vec<u8> {
    let body = request.body.clone();
    let mut bytes = request.header("transfer-encoding", "chunked").head();
    for piece in body.chunks(chunk) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

on_both_stores! {
    async fn a_body_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not(backend: Backend) {
        let app = Setup::new(backend).set("http.max_body_bytes", &LIMIT.to_string()).start().await;
        app.deliver("shop", order_of(LIMIT, "evt_fits")).await.expect(200, "applied");
        app.deliver("shop", order_of(LIMIT + 1, "evt_over")).await.expect_problem(413, "body-too-large");
        let mut connection = Connection::open(app.public()).await.expect("connects");
        let fits = Request::post("/hooks/shop", order_of(LIMIT, "evt_chunked"));
        connection.write(&chunked(fits, 1000)).await.expect("writes");
        connection.answer().await.expect("answers").expect(200, "applied");
        assert_eq!(app.database.effects().await, 2);
    }

    async fn a_body_announced_too_large_is_refused_before_it_is_sent(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        let mut connection = Connection::open(app.public()).await.expect("connects");
        let announced = Request::new("POST", "/hooks/github").header("content-length", "27262976");
        connection.write(&announced.head()).await.expect("writes");
        connection.answer().await.expect("answers").expect_problem(413, "body-too-large");
    }

    async fn an_endless_chunked_body_is_cut_at_the_limit_without_growing_memory(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        app.deliver("shop", order("evt_warm")).await.expect(200, "applied");
        let before = app.resident_bytes();
        let mut senders = Vec::new();
        for _ in 0..8 {
            let mut connection = Connection::open(app.public()).await.expect("connects");
            senders.push(tokio::spawn(async move {
                let head = Request::new("POST", "/hooks/github").header("transfer-encoding", "chunked").head();
                connection.write(&head).await.expect("writes");
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
                // 64 MiB, were it read: it is not, and the connection ends before.
                for _ in 0..1000 {
                    if connection.write(chunk.as_bytes()).await.is_err() {
                        break;
                    }
                }
                connection.answer().await
            }));
        }
        let mut told = 0;
        for sender in senders {
            // The answer may be lost to a reset, when the sender writes on after the refusal.
            if let Ok(answer) = sender.await.expect("does not panic") {
                answer.expect_problem(413, "body-too-large");
                told += 1;
            }
        }
        let grown = app.resident_bytes().saturating_sub(before);
        assert!(grown < 64 * MIB, "grew by {} MiB for 8 refused bodies", grown / MIB);
        app.deliver("shop", order("evt_after")).await.expect(200, "applied");
        eprintln!("{told} of 8 senders read their 413");
    }

    async fn a_chunked_body_that_passes_the_limit_by_a_little_is_told_so(backend: Backend) {
        let app = Setup::new(backend).set("http.max_body_bytes", "1000").start().await;
        let mut connection = Connection::open(app.public()).await.expect("connects");
        let over = Request::post("/hooks/shop", order_of(1001, "evt_over"));
        connection.write(&chunked(over, 100)).await.expect("writes");
        connection.answer().await.expect("answers").expect_problem(413, "body-too-large");
    }

    async fn large_bodies_under_the_limit_are_taken(backend: Backend) {
        let app = Setup::new(backend).set("http.max_body_bytes", "4000000").start().await;
        for bytes in [28_000, 256 * 1024 + 1, 2 * 1024 * 1024 + 1] {
            app.deliver("shop", order_of(bytes, &format!("evt_{bytes}"))).await.expect(200, "applied");
        }
    }

    async fn one_byte_chunks_extensions_and_trailers_are_read(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        let mut connection = Connection::open(app.public()).await.expect("connects");
        connection.write(&chunked(github("d-chunked", order("x")), 1)).await.expect("writes");
        connection.answer().await.expect("answers").expect(200, "applied");
    }

    async fn a_sender_that_waits_for_100_continue_gets_it(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let mut connection = Connection::open(app.public()).await.expect("connects");
        let request = Request::post("/hooks/shop", order("evt_expect")).header("expect", "100-continue");
        connection.write(&request.head()).await.expect("writes");
        assert_eq!(connection.answer().await.expect("an interim answer").status, 100);
        connection.write(&request.body).await.expect("writes");
        connection.answer().await.expect("answers").expect(200, "applied");
        let empty = Request::post("/hooks/shop", order("evt_empty_expect")).header("expect", "");
        assert_eq!(app.send(&empty).await.outcome(), "applied");
    }

    async fn header_names_are_read_in_any_case(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        let mut shouting = github("d-shout", order("x"));
        for (name, _) in &mut shouting.headers {
            *name = name.to_uppercase();
        }
        app.send(&shouting).await.expect(200, "applied");
    }

    async fn senders_that_hang_up_at_once_cost_no_event_and_no_connection(backend: Backend) {
        const SENDERS: usize = 100;
        let app = Setup::new(backend).start().await;
        for n in 0..SENDERS {
            let mut connection = Connection::open(app.public()).await.expect("connects");
            connection.write(&Request::post("/hooks/shop", order(&format!("evt_{n}"))).bytes()).await.expect("writes");
            connection.reset();
        }
        let again = (0..SENDERS).map(|n| Request::post("/hooks/shop", order(&format!("evt_{n}"))));
        for answer in all_at_once(app.public(), again.collect()).await {
            assert!(answer.is_success(), "{answer:?}");
        }
        assert_eq!(app.database.effects().await, 100, "each exactly once");
    }

    async fn a_request_that_never_ends_is_given_up(backend: Backend) {
        let app = Setup::new(backend).set("http.body_timeout", "\"1s\"").start().await;
        let mut connection = Connection::open(app.public()).await.expect("connects");
        let stalled = Request::post("/hooks/shop", order("evt_stalled"));
        connection.write(&stalled.head()).await.expect("writes");
        connection.write(&stalled.body[..5]).await.expect("writes");
        // Told 408 (or 400), or cut off: but not kept.
        match connection.answer().await {
            Ok(answer) => {
                answer.expect_refusal();
            }
            Err(e) => assert_ne!(e.kind(), std::io::ErrorKind::TimedOut, "still open"),
        }
        assert_eq!(app.database.effects().await, 0);
    }

    async fn a_connection_serves_many_deliveries(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let mut connection = Connection::open(app.public()).await.expect("connects");
        for n in 0..20 {
            let request = Request::post("/hooks/shop", order(&format!("evt_{n}")));
            connection.send(&request).await.expect("answers").expect(200, "applied");
        }
        assert!(!connection.is_closed_within(Duration::from_millis(100)).await);
    }

    async fn a_sender_that_speaks_http_1_0_is_served(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let body = order("evt_old_style");
        let mut connection = Connection::open(app.public()).await.expect("connects");
        let request = format!("POST /hooks/shop HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        connection.write(request.as_bytes()).await.expect("writes");
        connection.answer().await.expect("answers").expect(200, "applied");
    }

    async fn a_request_framed_in_two_ways_is_not_read_as_two(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let hidden = Request::post("/hooks/shop", order("evt_hidden")).bytes();
        let mut smuggler = Request::post("/hooks/shop", "")
            .header("content-length", (hidden.len() + 5).to_string())
            .header("transfer-encoding", "chunked")
            .head();
        smuggler.extend_from_slice(b"0\r\n\r\n");
        smuggler.extend_from_slice(&hidden);
        let mut connection = Connection::open(app.public()).await.expect("connects");
        connection.write(&smuggler).await.expect("writes");
        if let Ok(answer) = connection.answer().await {
            answer.expect_refusal();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(app.database.effects_of("evt_hidden").await, 0);
    }

    async fn what_is_no_http_is_refused_and_leaves_no_line_in_the_log(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for garbage in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"POST /hooks/shop HTTP/1.1\r\nHost: x\r\nX-A : a\r\n\r\n",
            b"POST /hooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        ] {
            let mut connection = Connection::open(app.public()).await.expect("connects");
            connection.write(garbage).await.expect("writes");
            assert_eq!(connection.answer().await.expect("answers").status, 400, "{garbage:?}");
        }
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        assert!(!app.log().contains("ERROR"), "whoever reaches the port can fill the log:\n{}", app.log());
    }
}
