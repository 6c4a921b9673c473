//! Bodies that carry many events: each is deduplicated on its own, the request has one answer.

use serde_json::json;

use crate::support::app::order;
use crate::support::on_both_stores;
use crate::support::{Backend, Setup};

const LIST: &str = r#"
[[source]]
name = "list"
verify = { scheme = "none" }
items = ""
event_id = "body:/id"
data = "/data"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CAST(data ->> 'amount' AS bigint) FROM event"

[[source]]
name = "wrapped"
verify = { scheme = "none" }
items = "/notificationItems"
event_id = "body:/id"
data = "/data"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CAST(data ->> 'amount' AS bigint) FROM event"
"#;

fn list(ids: &[&str]) -> String {
    format!("[{}]", ids.iter().map(|id| order(id)).collect::<Vec<_>>().join(","))
}

on_both_stores! {
    async fn each_item_of_a_list_takes_effect_once(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        let first = app.deliver("list", list(&["a", "b"])).await;
        first.expect(200, "applied");
        assert_eq!(
            first.json()["events"],
            json!([{"event_id": "a", "status": "applied"}, {"event_id": "b", "status": "applied"}])
        );
        let overlapping = app.deliver("list", list(&["b", "c"])).await;
        assert_eq!(overlapping.status, 200);
        assert_eq!(overlapping.json()["events"][1], json!({"event_id": "c", "status": "applied"}));
        assert_eq!(app.database.effects().await, 3);
        assert_eq!(app.database.effects_of("b").await, 1);
    }

    async fn an_item_that_stands_twice_in_one_list_takes_effect_once(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        let answer = app.deliver("list", list(&["a", "a", "a"])).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(app.database.effects_of("a").await, 1);
    }

    async fn items_are_found_by_pointer(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        let body = format!(r#"{{"live":"false","notificationItems":{}}}"#, list(&["a", "b"]));
        app.deliver("wrapped", body).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 2);
        app.deliver("wrapped", r#"{"live":"false"}"#).await.expect_refusal();
        app.deliver("wrapped", r#"{"notificationItems":7}"#).await.expect_refusal();
    }

    async fn a_refused_item_does_not_take_its_neighbours_with_it(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        let bad = r#"{"id":"bad","data":{"amount":-1}}"#;
        let answer = app.deliver("list", format!("[{},{bad},{}]", order("a"), order("b"))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["events"][1], json!({"event_id": "bad", "status": "rejected"}));
        assert_eq!(app.database.effects().await, 2);
        assert_eq!(app.database.rows("dead_letters").await, 1);
    }

    async fn a_list_of_which_every_item_is_refused_is_refused(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        let bad = |id: &str| format!(r#"{{"id":"{id}","data":{{"amount":-1}}}}"#);
        app.deliver("list", format!("[{},{}]", bad("x"), bad("y"))).await.expect(422, "rejected");
        assert_eq!(app.database.rows("dead_letters").await, 2);
        assert_eq!(app.database.effects().await, 0);
    }

    async fn one_item_without_an_id_refuses_the_whole_list_before_anything_is_stored(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        app.deliver("list", format!("[{},{{}}]", order("a"))).await.expect_problem(400, "missing-event-id");
        app.deliver("list", "{}").await.expect_refusal();
        assert_eq!(app.database.rows("processed_events").await, 0);
        assert_eq!(app.database.effects().await, 0);
    }

    async fn an_empty_list_is_taken_and_nothing_of_it_is_kept(backend: Backend) {
        let app = Setup::new(backend).sources(LIST).start().await;
        app.deliver("list", "[]").await.expect(200, "ignored");
        app.deliver("wrapped", r#"{"notificationItems":[]}"#).await.expect(200, "ignored");
        assert_eq!(app.database.rows("processed_events").await, 0);
    }
}
