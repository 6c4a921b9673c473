//! `examples/orders/`: each way of making a change safe to repeat, over real HTTP, with the files as
//! they stand there.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use futures_util::future::join_all;
use serde_json::json;

use crate::support::app::{SIGNING_SECRET, TestApp, unix_now};
use crate::support::signing::{hmac_hex, standard_webhooks};
use crate::support::{Answer, Backend, Request, Setup, TestDatabase, on_both_stores};

const CONFIG: &str = include_str!("../../../examples/orders/hooklatch.toml");
const SCHEMA_POSTGRES: &str = include_str!("../../../examples/orders/schema.postgres.sql");
const SCHEMA_SQLITE: &str = include_str!("../../../examples/orders/schema.sqlite.sql");
/// `never-log-this-secret-00` in base64.
pub(super) const SHOP_SECRET: &str = "whsec_bmV2ZXItbG9nLXRoaXMtc2VjcmV0LTAw";
const ORDER: &str = "0192f3a4-7c1e-7b60-8a55-3d1f0c9e4b11";

/// The example's sources with the tests' secrets, on the example's tables.
pub(super) async fn start(backend: Backend) -> TestApp {
    let database = TestDatabase::new(backend).await;
    let schema = match backend {
        Backend::Postgres => SCHEMA_POSTGRES,
        Backend::Sqlite => SCHEMA_SQLITE,
    };
    for statement in schema.split_inclusive(";\n") {
        database.execute(statement).await;
    }
    let sources = &CONFIG[CONFIG.find("[[source]]").expect("the example has sources")..];
    let sources = sources
        .replace("env:SHOP_SECRET", SHOP_SECRET)
        .replace("env:CRM_SECRET", SIGNING_SECRET)
        .replace("env:WAREHOUSE_SECRET", SIGNING_SECRET);
    assert!(!sources.contains("env:"), "a secret that the tests do not know");
    Setup::new(backend).sources(&sources).start_on(Arc::new(database)).await
}

/// A body in `examples/orders/payloads/`.
fn payload(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/orders/payloads").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// `order_created`, as the shop sends it.
fn order_created(event: &str, order: &str, customer: &str, amount_cents: u32) -> String {
    let data = json!({
        "order_id": order, "invoice_id": format!("inv_{order}"), "customer_id": customer,
        "amount_cents": amount_cents,
    });
    json!({"id": event, "type": "order_created", "data": data}).to_string()
}

/// The number-th order id.
fn order_id(number: u32) -> String {
    format!("0192f3a4-7c1e-7b60-8a55-{number:012}")
}

async fn shop(app: &TestApp, body: impl Into<String>) -> Answer {
    let body = body.into();
    let (id, now) = ("msg_1", unix_now().to_string());
    let signature = standard_webhooks(SHOP_SECRET, id, &now, body.as_bytes());
    let request = Request::post("/hooks/shop", body)
        .header("webhook-id", id)
        .header("webhook-timestamp", now)
        .header("webhook-signature", signature);
    app.send(&request).await
}

async fn crm(app: &TestApp, body: impl Into<String>) -> Answer {
    let body = body.into();
    let signature = format!("sha256={}", hmac_hex(SIGNING_SECRET, body.as_bytes()));
    app.send(&Request::post("/hooks/crm", body).header("x-crm-signature", signature)).await
}

async fn warehouse(app: &TestApp, body: impl Into<String>) -> Answer {
    let body = body.into();
    let mac = hex::decode(hmac_hex(SIGNING_SECRET, body.as_bytes())).expect("hex");
    let signature = base64::engine::general_purpose::STANDARD.encode(mac);
    app.send(&Request::post("/hooks/warehouse", body).header("x-warehouse-signature", signature)).await
}

async fn pay(app: &TestApp, key: &str, body: impl Into<Vec<u8>>) -> Answer {
    app.send(&Request::post("/hooks/pay", body).header("idempotency-key", key)).await
}

async fn texts(app: &TestApp, sql: &str) -> Vec<String> {
    app.database.column(sql).await
}

on_both_stores! {
    async fn the_whole_configuration_passes_the_check(backend: Backend) {
        let app = start(backend).await;
        let checked = app.run(&["check"]);
        assert!(checked.status.success(), "{}", crate::support::app::said(&checked));
    }

    /// Natural unique key.
    async fn an_order_that_two_events_announce_is_one_order(backend: Backend) {
        let app = start(backend).await;
        let first = shop(&app, payload("order_created.json")).await;
        first.expect(200, "applied");
        let again = shop(&app, payload("order_created.json")).await;
        again.expect(200, "replayed");
        assert_eq!(again.body, first.body);
        shop(&app, order_created("another event", ORDER, "cus_42", 4990)).await.expect(200, "applied");

        assert_eq!(texts(&app, "SELECT event_id FROM orders").await, ["evt_order_1"]);
        assert_eq!(texts(&app, "SELECT status FROM invoices").await, ["issued"]);
        assert_eq!(app.database.number("SELECT orders FROM customer_totals").await, 1);
    }

    async fn an_order_the_tables_refuse_leaves_nothing_but_a_dead_letter(backend: Backend) {
        let app = start(backend).await;
        shop(&app, order_created("bad id", "not a uuid", "cus_1", 1)).await.expect(422, "rejected");
        shop(&app, order_created("good", &order_id(1), "cus_1", 1)).await.expect(200, "applied");
        // The invoice id is taken: the second handler fails, and the first one's order goes too.
        let taken = order_created("taken", &order_id(2), "cus_1", 1).replace(&format!("inv_{}", order_id(2)), &format!("inv_{}", order_id(1)));
        shop(&app, taken).await.expect(422, "rejected");

        assert_eq!(texts(&app, "SELECT event_id FROM orders").await, ["good"]);
        assert_eq!(app.database.rows("dead_letters").await, 2);
    }

    /// Upsert projection by addition.
    async fn totals_count_every_order_once_however_often_it_is_sent(backend: Backend) {
        const ORDERS: u32 = 60;
        let app = start(backend).await;
        for _ in 0..2 {
            let sent = (0..ORDERS).map(|number| {
                let customer = format!("cus_{}", number % 3);
                let body = order_created(&format!("evt_{number}"), &order_id(number), &customer, 100 + number);
                shop(&app, body)
            });
            for answer in join_all(sent).await {
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        }
        let totals = texts(
            &app,
            "SELECT customer_id || ' ' || orders || ' ' || amount_cents FROM customer_totals ORDER BY customer_id",
        )
        .await;
        let sum = |rest: u32| (0..ORDERS).filter(|n| n % 3 == rest).map(|n| 100 + n).sum::<u32>();
        assert_eq!(totals, [0, 1, 2].map(|rest| format!("cus_{rest} 20 {}", sum(rest))));
    }

    /// Status guard.
    async fn an_invoice_is_paid_by_the_first_event_that_says_so(backend: Backend) {
        let app = start(backend).await;
        shop(&app, payload("order_created.json")).await.expect(200, "applied");
        shop(&app, payload("invoice_paid.json")).await.expect(200, "applied");
        let second = payload("invoice_paid.json").replace("evt_invoice_1", "evt_invoice_2");
        shop(&app, second).await.expect(200, "applied");
        assert_eq!(texts(&app, "SELECT status || ' by ' || paid_by FROM invoices").await, ["paid by evt_invoice_1"]);
    }

    /// Upsert projection of the last state, with the ordering guard.
    async fn a_late_older_event_does_not_undo_a_newer_one(backend: Backend) {
        let app = start(backend).await;
        crm(&app, payload("customer_updated.json")).await.expect(200, "applied");
        crm(&app, payload("customer_created.json")).await.expect(200, "stale");
        crm(&app, payload("customer_created.json")).await.expect(200, "replayed");
        assert_eq!(texts(&app, "SELECT plan FROM customers").await, ["business"]);
        assert_eq!(app.database.rows("processed_events").await, 2);
    }

    /// Versions of one customer that arrive together and in any order end with the newest.
    async fn versions_in_flight_together_end_with_the_newest(backend: Backend) {
        const VERSIONS: u32 = 20;
        let app = start(backend).await;
        let sent = (1..=VERSIONS).rev().map(|version| {
            let data = json!({"customer_id": "cus_1", "email": "a@example.com", "plan": format!("p{version}"), "version": version});
            crm(&app, json!({"id": format!("evt_{version}"), "type": "customer.updated", "data": data}).to_string())
        });
        for answer in join_all(sent).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        assert_eq!(texts(&app, "SELECT plan FROM customers").await, [format!("p{VERSIONS}")]);
    }

    /// Many events in one body.
    async fn a_shipment_counts_once_whatever_batch_it_comes_in(backend: Backend) {
        let app = start(backend).await;
        shop(&app, payload("order_created.json")).await.expect(200, "applied");
        let first = warehouse(&app, payload("shipments.json")).await;
        first.expect(200, "applied");
        assert_eq!(first.json()["events"][1], json!({"event_id": "shp_2", "status": "applied"}));

        let overlapping = payload("shipments.json").replace("shp_1", "shp_3");
        let second = warehouse(&app, overlapping).await;
        assert_eq!(second.status, 200, "{}", second.text());
        assert_eq!(second.json()["events"][0], json!({"event_id": "shp_3", "status": "applied"}));
        assert_eq!(second.json()["events"][1], json!({"event_id": "shp_2", "status": "duplicate"}));

        assert_eq!(texts(&app, "SELECT id FROM shipments ORDER BY id").await, ["shp_1", "shp_2", "shp_3"]);
        assert_eq!(texts(&app, "SELECT status FROM orders").await, ["shipped"]);
    }

    /// A custom answer under a required Idempotency-Key.
    async fn a_second_click_on_pay_sees_the_same_payment(backend: Backend) {
        let app = start(backend).await;
        shop(&app, payload("order_created.json")).await.expect(200, "applied");
        let without_key = app.deliver("pay", payload("pay.json")).await;
        without_key.expect_problem(400, "missing-idempotency-key");

        let clicks = join_all((0..10).map(|_| pay(&app, "click-1", payload("pay.json")))).await;
        for answer in &clicks {
            assert_eq!(answer.status, 201, "{}", answer.text());
            assert_eq!(answer.header("location"), Some("/payments/1"));
            assert_eq!(answer.body, br#"{"payment_id":1,"amount_cents":4990,"status":"paid"}"#);
        }
        assert_eq!(clicks.iter().filter(|answer| answer.outcome() == "applied").count(), 1);

        let other_body = payload("pay.json").replace("inv_1", "inv_2");
        pay(&app, "click-1", other_body).await.expect_problem(422, "idempotency-key-reused");
        assert_eq!(texts(&app, "SELECT status || ' by ' || paid_by FROM invoices").await, ["paid by pay_1"]);
    }

    async fn an_invoice_that_is_paid_or_unknown_cannot_be_paid(backend: Backend) {
        let app = start(backend).await;
        shop(&app, payload("order_created.json")).await.expect(200, "applied");
        shop(&app, payload("invoice_paid.json")).await.expect(200, "applied");
        let refused = pay(&app, "k1", payload("pay.json")).await;
        refused.expect(422, "rejected").expect_problem(422, "event-rejected");
        let unknown = payload("pay.json").replace("pay_1", "pay_2").replace("inv_1", "inv_9");
        pay(&app, "k2", unknown).await.expect(422, "rejected");
        assert_eq!(app.database.number("SELECT count(*) FROM payments").await, 0);
        assert_eq!(app.database.rows("dead_letters").await, 2);
    }
}
