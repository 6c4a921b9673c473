//! One effect an event, whatever is delivered how often, when and how.

use std::time::Duration;

use super::{GITHUB, all_at_once, github, patient, slow_source};
use crate::support::app::{SHOP, order};
use crate::support::http::Connection;
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

/// Longer than an answer is given from memory.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(5_200);

on_both_stores! {
    async fn fifty_parallel_identical_deliveries_have_one_effect_and_fifty_good_answers(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for round in 0..5 {
            let same = vec![Request::post("/hooks/shop", order(&format!("evt_{round}"))); 50];
            let answers = all_at_once(app.public(), same).await;
            assert!(answers.iter().all(|a| a.is_success()), "{answers:?}");
            let applied = answers.iter().filter(|a| a.outcome() == "applied").count();
            assert_eq!(applied, 1, "one delivery applied it, the others were told so");
            assert!(answers.iter().all(|a| a.body == answers[0].body));
        }
        assert_eq!(app.database.effects().await, 5);
    }

    async fn many_senders_with_overlapping_events_have_one_effect_each(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let requests = (0..400).map(|n| Request::post("/hooks/shop", order(&format!("evt_{}", n % 100))));
        for answer in all_at_once(app.public(), requests.collect()).await {
            assert!(answer.is_success(), "{answer:?}");
        }
        assert_eq!(app.database.effects().await, 100);
    }

    async fn a_retry_seconds_later_or_after_a_restart_has_no_effect(backend: Backend) {
        let mut app = Setup::new(backend).and_source(GITHUB).start().await;
        let delivery = github("d-1", order("x"));
        app.send(&delivery).await.expect(200, "applied");
        tokio::time::sleep(FORGOTTEN_AFTER).await;
        app.send(&delivery).await.expect(200, "replayed");
        assert_eq!(app.stop(), Some(0));
        app.start();
        app.send(&delivery).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("d-1").await, 1);
    }

    async fn what_a_late_repetition_is_the_database_says(backend: Backend) {
        let app = Setup::new(backend).effects_may_repeat().start().await;
        for id in ["evt_1", "evt_2", "evt_3"] {
            app.deliver("shop", order(id)).await.expect(200, "applied");
        }
        tokio::time::sleep(FORGOTTEN_AFTER).await;
        // By an operator with psql, say.
        let events = crate::support::database::table(backend, "processed_events");
        app.database.execute(&format!("DELETE FROM {events} WHERE event_id = 'evt_2'")).await;
        let all = ["evt_1", "evt_2", "evt_3", "evt_4"].map(|id| Request::post("/hooks/shop", order(id)));
        let outcomes: Vec<_> =
            all_at_once(app.public(), all.to_vec()).await.iter().map(|a| a.outcome().to_owned()).collect();
        assert_eq!(outcomes, ["replayed", "applied", "replayed", "applied"]);
        for (id, times) in [("evt_1", 1), ("evt_2", 2), ("evt_3", 1), ("evt_4", 1)] {
            assert_eq!(app.database.effects_of(id).await, times, "{id}");
        }
    }

    async fn of_many_late_repetitions_each_is_what_the_database_says(backend: Backend) {
        let app = Setup::new(backend).effects_may_repeat().start().await;
        let ids: Vec<String> = (0..60).map(|number| format!("evt_{number}")).collect();
        for id in &ids {
            app.deliver("shop", order(id)).await.expect(200, "applied");
        }
        tokio::time::sleep(FORGOTTEN_AFTER).await;
        let events = crate::support::database::table(backend, "processed_events");
        app.database.execute(&format!("DELETE FROM {events} WHERE event_id LIKE '%7'")).await;
        // One after the other: rows are read before their repetition comes.
        for (id, round) in ids.iter().flat_map(|id| [(id, 1), (id, 2)]) {
            let expected = if round == 1 && id.ends_with('7') { "applied" } else { "replayed" };
            app.deliver("shop", order(id)).await.expect(200, expected);
        }
        for id in &ids {
            assert_eq!(app.database.effects_of(id).await, if id.ends_with('7') { 2 } else { 1 }, "{id}");
        }
    }

    async fn a_body_that_changes_between_retries_is_still_the_same_event(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", r#"{"id":"evt_1","pending_webhooks":2,"data":{"amount":1}}"#).await.expect(200, "applied");
        app.deliver("shop", r#"{"id":"evt_1","pending_webhooks":1,"data":{"amount":1}}"#).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }

    async fn the_same_body_under_two_event_ids_is_two_events(backend: Backend) {
        let app = Setup::new(backend).and_source(GITHUB).start().await;
        app.send(&github("d-1", order("x"))).await.expect(200, "applied");
        app.send(&github("d-2", order("x"))).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 2);
    }

    async fn an_event_id_counts_within_its_consumer_only(backend: Backend) {
        let other = SHOP.replace("\"shop\"", "\"other\"");
        let shared = |name: &str| SHOP.replace("name = \"shop\"", &format!("name = \"{name}\"\nconsumer = \"both\""));
        let sources = format!("{SHOP}{other}{}{}", shared("left"), shared("right"));
        let app = Setup::new(backend).sources(&sources).start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        app.deliver("other", order("evt_1")).await.expect(200, "applied");
        app.deliver("left", order("evt_1")).await.expect(200, "applied");
        let sibling = app.deliver("right", order("evt_1")).await;
        assert!(matches!(sibling.outcome(), "replayed" | "duplicate"), "{sibling:?}");
        assert_eq!(app.database.effects_of("evt_1").await, 3);
    }

    async fn an_id_may_be_joined_from_several_places(backend: Backend) {
        let joined = SHOP.replace("\"body:/id\"", "[\"body:/data/order\", \"body:/data/state\"]");
        let app = Setup::new(backend).sources(&joined).start().await;
        let body = |attempt: &str, state: &str| {
            format!(r#"{{"id":"{attempt}","data":{{"amount":1,"order":7,"state":"{state}"}}}}"#)
        };
        // The sender makes up a new id for each attempt; the order and its state are what counts.
        app.deliver("shop", body("attempt-1", "paid")).await.expect(200, "applied");
        app.deliver("shop", body("attempt-2", "paid")).await.expect(200, "replayed");
        app.deliver("shop", body("attempt-3", "sent")).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 2);
    }

    async fn an_event_stays_processed_when_its_business_row_is_deleted(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        app.database.execute("DELETE FROM effects").await;
        app.deliver("shop", order("evt_1")).await.expect(200, "replayed");
        assert_eq!(app.database.effects().await, 0);
    }

    async fn a_refused_event_is_applied_once_after_its_cause_is_mended(backend: Backend) {
        let payments = r#"
[[source]]
name = "payments"
verify = { scheme = "none" }
event_id = "body:/id"
replay_errors = "none"
[[source.handler]]
sql = "INSERT INTO charges (event_id, account) SELECT id, payload ->> 'account' FROM event"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id) SELECT source, id FROM event"
"#;
        let app = Setup::new(backend).sources(payments).start().await;
        let payment = r#"{"id":"pay_1","account":"acc_1"}"#;
        app.deliver("payments", payment).await.expect(422, "rejected");
        assert_eq!(app.database.effects().await, 0, "no handler's change stays");
        app.database.execute("INSERT INTO accounts (id) VALUES ('acc_1')").await;
        app.deliver("payments", payment).await.expect(200, "applied");
        app.deliver("payments", payment).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("pay_1").await, 1);
        assert_eq!(app.database.number("SELECT count(*) FROM charges").await, 1);
    }

    async fn one_bad_event_among_many_takes_no_other_with_it(backend: Backend) {
        let app = Setup::new(backend).start().await;
        let requests = (0..100).map(|n| {
            let amount = if n % 10 == 3 { -1 } else { 1 };
            Request::post("/hooks/shop", format!(r#"{{"id":"evt_{n}","data":{{"amount":{amount}}}}}"#))
        });
        let answers = all_at_once(app.public(), requests.collect()).await;
        for (n, answer) in answers.iter().enumerate() {
            if n % 10 == 3 {
                answer.expect(422, "rejected");
            } else {
                answer.expect(200, "applied");
            }
        }
        assert_eq!(app.database.effects().await, 90);
        assert_eq!(app.database.rows("dead_letters").await, 10);
    }

    async fn a_second_copy_while_the_first_is_running_has_no_effect_of_its_own(backend: Backend) {
        let app = patient(Setup::new(backend))
            .sources(&slow_source(backend, "slow", 1.0).await)
            .set("inbox.inflight_wait", "\"300ms\"")
            .start()
            .await;
        let request = Request::post("/hooks/slow", r#"{"id":"evt_1"}"#);
        let mut first = Connection::open(app.public()).await.expect("connects");
        first.write(&request.bytes()).await.expect("writes");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let second = app.send(&request).await;
        assert!(second.status == 409 || second.outcome() == "replayed", "{second:?}");
        first.answer().await.expect("answers").expect(200, "applied");
        app.send(&request).await.expect(200, "replayed");
        assert_eq!(app.database.effects_of("evt_1").await, 1);
    }
}
