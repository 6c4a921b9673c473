//! `forward` handlers: from a delivery to a destination, in one transaction with the effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::crm;
use super::sink::{Reply, Sink};
use super::{in_state, table, wait_for};
use crate::support::app::{SHOP, order, said};
use crate::support::{Backend, Request, Setup, on_both_stores};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

on_both_stores! {
    async fn destinations_come_and_move_while_the_program_runs(backend: Backend) {
        let (first, second) = (Sink::start().await, Sink::start().await);
        let app = Setup::new(backend).set("relay.poll_every", "\"1h\"").start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        let forward = "[[source.handler]]\nforward = \"crm\"\n";
        app.edit_config(|text| format!("{text}{forward}{}", crm(&first.url(), "")));
        app.logs("configuration read again and put to use", 1).await;
        // Only the bell is left to tell of it in time.
        app.deliver("shop", order("evt_2")).await.expect(200, "applied");
        assert_eq!(first.wait_for(1).await[0].text(), order("evt_2"));
        wait_for(&app, "sent", 1).await;
        app.edit_config(|text| text.replace(&first.url(), &second.url()));
        app.logs("configuration read again and put to use", 2).await;
        app.deliver("shop", order("evt_3")).await.expect(200, "applied");
        assert_eq!(second.wait_for(1).await[0].text(), order("evt_3"));
        wait_for(&app, "sent", 2).await;
        assert_eq!((first.received().len(), second.received().len()), (1, 1));
    }

    async fn an_applied_event_goes_on_as_it_came_and_once(backend: Backend) {
        let sink = Sink::start().await;
        let forward = "[[source.handler]]\nforward = \"crm\"\naggregate = \"/data/order\"\n";
        // Polling would be too late: the commit itself rings.
        let app = Setup::new(backend)
            .sources(&format!("{SHOP}{forward}{}", crm(&sink.url(), "")))
            .set("relay.poll_every", "\"1h\"")
            .start()
            .await;
        let body = r#" {"id": "evt_1", "type": "t", "data": {"amount": 1.0e0, "order": 7}} "#;
        let body = body.replace("1.0e0", "1");
        let request = Request::post("/hooks/shop", body.clone())
            .without("content-type")
            .header("content-type", "application/json; charset=utf-8")
            .header("traceparent", TRACE)
            .header("hooklatch-hops", "2");
        app.send(&request).await.expect(200, "applied");
        app.send(&request).await.expect(200, "replayed");
        let received = sink.wait_for(1).await;
        wait_for(&app, "sent", 1).await;
        assert_eq!(received[0].text(), body);
        assert_eq!(received[0].header("content-type"), "application/json; charset=utf-8");
        assert_eq!(received[0].header("traceparent"), TRACE);
        assert_eq!(received[0].header("hooklatch-hops"), "3");
        let aggregates = app.database.column(&format!("SELECT aggregate_id FROM {}", table(backend, "outbox"))).await;
        assert_eq!(aggregates, ["7"]);
        assert_eq!(app.database.effects_of("evt_1").await, 1);
        assert_eq!(sink.received().len(), 1);
    }

    async fn a_message_written_while_others_are_claimed_is_not_overlooked(backend: Backend) {
        const ROUNDS: usize = 60;
        let sink = Sink::start().await;
        let forward = "[[source.handler]]\nforward = \"crm\"\n";
        let app = Setup::new(backend)
            .sources(&format!("{SHOP}{forward}{}", crm(&sink.url(), "")))
            .set("relay.poll_every", "\"1h\"")
            .start()
            .await;
        for round in 1..=ROUNDS {
            // The first one's bell starts a claim; the others are committed at about that time.
            for part in 0..3 {
                app.deliver("shop", order(&format!("evt_{round}_{part}"))).await.expect(200, "applied");
            }
            sink.wait_for(round * 3).await;
        }
    }

    async fn an_event_says_whether_and_when_it_was_sent_on(backend: Backend) {
        let status = Arc::new(AtomicU16::new(200));
        let now = status.clone();
        let sink = Sink::answering(move |_| Reply::status(now.load(Ordering::SeqCst))).await;
        let app = Setup::new(backend)
            .sources(&format!("{SHOP}[[source.handler]]\nforward = \"crm\"\n{}", crm(&sink.url(), "")))
            .start()
            .await;
        // What HTTP does not allow in a header travels encoded and is found again.
        let (first, second) = ("évt 1%", "evt_2");
        app.deliver("shop", order(first)).await.expect(200, "applied");
        let received = sink.wait_for(1).await;
        wait_for(&app, "sent", 1).await;
        assert_eq!(received[0].header("hooklatch-source"), "shop");
        assert_eq!(received[0].header("hooklatch-event-id"), "%C3%A9vt%201%25");
        let shown = said(&app.run(&["events", "show", first]));
        assert!(shown.contains("sent on to crm") && shown.contains("message: sent"), "{shown}");
        let history = app.admin_get("/api/v1/events/%C3%A9vt%201%25").await.json();
        assert_eq!(history["messages"][0]["destination"], "crm", "{history}");
        assert!(history["messages"][0]["sent_at"].is_string(), "{history}");

        status.store(422, Ordering::SeqCst);
        app.deliver("shop", order(second)).await.expect(200, "applied");
        wait_for(&app, "dead", 1).await;
        let id = sink.wait_for(2).await[1].id().to_owned();
        let shown = said(&app.run(&["events", "show", second]));
        assert!(shown.contains(&format!("hooklatch outbox retry {id}")), "{shown}");
        assert!(shown.contains("message: given up") && shown.contains("answered 422"), "{shown}");
        assert!(!shown.contains("message: sent"), "{shown}");
        let as_json = said(&app.run(&["events", "show", second, "--json"]));
        let as_json: serde_json::Value = serde_json::from_str(&as_json).expect("JSON");
        assert_eq!(as_json["messages"].as_array().map(Vec::len), Some(1), "its own and no other's: {as_json}");
    }

    async fn an_event_that_cannot_be_written_for_its_destination_is_new_when_it_can(backend: Backend) {
        let sink = Sink::start().await;
        let app = Setup::new(backend)
            .sources(&format!("{SHOP}[[source.handler]]\nforward = \"crm\"\n{}", crm(&sink.url(), "")))
            .start()
            .await;
        let outbox = table(backend, "outbox");
        app.database.execute(&format!("ALTER TABLE {outbox} RENAME TO outbox_away")).await;
        let put_off = app.deliver("shop", order("evt_1")).await;
        put_off.expect(503, "unavailable");
        assert_eq!((app.database.effects().await, app.database.rows("processed_events").await), (0, 0));
        app.database.execute(&format!("ALTER TABLE {outbox}_away RENAME TO outbox")).await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        app.deliver("shop", order("evt_1")).await.expect(200, "replayed");
        wait_for(&app, "sent", 1).await;
        assert_eq!(sink.received().len(), 1);
    }

    async fn an_event_that_is_rejected_does_not_go_on(backend: Backend) {
        let sink = Sink::start().await;
        // Before the handler that refuses: the order of handlers does not matter.
        let source = SHOP.replace("[[source.handler]]", "[[source.handler]]\nforward = \"crm\"\n[[source.handler]]");
        let app = Setup::new(backend).sources(&format!("{source}{}", crm(&sink.url(), ""))).start().await;
        let bad = r#"{"id":"evt_1","type":"t","data":{"amount":-1}}"#;
        app.deliver("shop", bad).await.expect(422, "rejected");
        app.deliver("shop", order("evt_2")).await.expect(200, "applied");
        wait_for(&app, "sent", 1).await;
        assert_eq!(sink.texts(), [order("evt_2")]);
        assert_eq!(app.database.rows("outbox").await, 1);
    }

    async fn a_source_may_only_forward_and_items_go_on_one_by_one(backend: Backend) {
        let sink = Sink::start().await;
        let source = "
[[source]]
name = \"batch\"
verify = { scheme = \"none\" }
event_id = \"body:/id\"
event_type = \"body:/type\"
items = \"/items\"
order_by = { entity = \"/order\", sequence = \"/n\" }
[[source.handler]]
forward = \"crm\"
";
        let app = Setup::new(backend).sources(&format!("{source}{}", crm(&sink.url(), ""))).start().await;
        let body = r#"{"items": [{"id":"1","type":"t","order":"o","n":1}, {"id":"2","type":"t","order":"o","n":2}]}"#;
        assert!(app.deliver("batch", body).await.is_success());
        wait_for(&app, "sent", 2).await;
        assert_eq!(sink.texts(), [r#"{"id":"1","type":"t","order":"o","n":1}"#, r#"{"id":"2","type":"t","order":"o","n":2}"#]);
        assert_eq!(in_state(&app.database, "parked").await, 0);
    }
}
