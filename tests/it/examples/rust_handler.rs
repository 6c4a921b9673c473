//! `examples/rust_handler.rs`: a program that uses the library, with a handler of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use futures_util::future::join_all;
use serde_json::json;

use super::example;
use crate::support::{Backend, Request, TestDatabase, http, on_both_stores};

/// The example's process, killed at the end.
struct Running {
    child: Child,
    public: SocketAddr,
}

impl Running {
    fn start(database: &TestDatabase) -> Self {
        let mut child = Command::new(example("rust_handler"))
            .env("HOOKLATCH__DATABASE__URL", &database.url)
            .env("HOOKLATCH__HTTP__LISTEN", "127.0.0.1:0")
            .env("HOOKLATCH__ADMIN__LISTEN", "127.0.0.1:0")
            .current_dir(database.directory())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example can be run");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        stdout.read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("public http://").and_then(|address| address.parse().ok());
        Self { public: address.unwrap_or_else(|| panic!("no address: {line:?}")), child }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }
}

on_both_stores! {
    async fn a_handler_in_rust_gives_points_once(backend: Backend) {
        let database = TestDatabase::new(backend).await;
        let example = Running::start(&database);
        let order = |id: &str, amount_cents: u32| {
            let data = json!({"customer_id": "cus_1", "amount_cents": amount_cents});
            Request::post("/hooks/shop", json!({"id": id, "type": "order_created", "data": data}).to_string())
        };
        let (small, large) = (order("small", 4_990), order("large", 10_000));
        let copies = (0..20).map(|_| http::send(example.public, &small));
        for answer in join_all(copies).await {
            let answer = answer.expect("an answer");
            assert_eq!((answer.status, answer.text().as_str()), (201, r#"{"points":49}"#));
        }
        let answer = http::send(example.public, &large).await.expect("an answer");
        assert_eq!((answer.status, answer.text().as_str()), (201, r#"{"points":200}"#));

        let no_order = Request::post("/hooks/shop", r#"{"id":"none","type":"order_created","data":{}}"#);
        let refused = http::send(example.public, &no_order).await.expect("an answer");
        refused.expect_problem(422, "event-rejected");
        assert_eq!(database.number("SELECT points FROM loyalty_points").await, 249);
        assert_eq!(database.rows("dead_letters").await, 1);
    }
}
