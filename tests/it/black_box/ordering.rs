//! Events that arrive out of order: an older one never undoes a newer one.

use super::all_at_once;
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

const SUBSCRIPTIONS: &str = r#"
[[source]]
name = "billing"
verify = { scheme = "none" }
event_id = "body:/id"
data = "/data"
order_by = { entity = "/data/subscription", sequence = "/data/version" }
[[source.handler]]
sql = """
INSERT INTO subscriptions (id, state, version)
SELECT data ->> 'subscription', data ->> 'state', CAST(data ->> 'version' AS bigint) FROM event WHERE true
ON CONFLICT (id) DO UPDATE SET state = excluded.state, version = excluded.version
"""
"#;

fn change(id: &str, version: u32, state: &str) -> String {
    format!(r#"{{"id":"{id}","data":{{"subscription":"sub_1","version":{version},"state":"{state}"}}}}"#)
}

on_both_stores! {
    async fn an_older_event_is_recorded_as_stale_and_not_applied(backend: Backend) {
        let app = Setup::new(backend).sources(SUBSCRIPTIONS).start().await;
        app.deliver("billing", change("evt_updated", 2, "active")).await.expect(200, "applied");
        let late = app.deliver("billing", change("evt_created", 1, "incomplete")).await;
        late.expect(200, "stale");
        assert_eq!(late.json()["status"], "stale");
        app.deliver("billing", change("evt_created", 1, "incomplete")).await.expect(200, "replayed");
        assert_eq!(app.database.column("SELECT state FROM subscriptions").await, ["active"]);
        assert_eq!(app.database.rows("processed_events").await, 2, "both ids are remembered");
    }

    async fn fifty_versions_in_any_order_end_in_the_newest(backend: Backend) {
        let app = Setup::new(backend).sources(SUBSCRIPTIONS).start().await;
        // 17 and 50 share no divisor: every version once, in a scattered order.
        let versions = (0..50).map(|n| n * 17 % 50 + 1);
        let requests = versions.map(|version| {
            Request::post("/hooks/billing", change(&format!("evt_{version}"), version, &format!("state_{version}")))
        });
        for answer in all_at_once(app.public(), requests.collect()).await {
            assert!(matches!(answer.outcome(), "applied" | "stale"), "{answer:?}");
        }
        assert_eq!(app.database.column("SELECT state FROM subscriptions").await, ["state_50"]);
        assert_eq!(app.database.rows("processed_events").await, 50);
    }

    async fn a_refused_event_does_not_move_its_entity_forward(backend: Backend) {
        let app = Setup::new(backend).sources(SUBSCRIPTIONS).start().await;
        let no_state = r#"{"id":"evt_bad","data":{"subscription":"sub_1","version":9}}"#;
        app.deliver("billing", no_state).await.expect(422, "rejected");
        app.deliver("billing", change("evt_good", 1, "active")).await.expect(200, "applied");
    }
}
