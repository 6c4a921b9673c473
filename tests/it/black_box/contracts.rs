//! Each sender is answered in its own words, and a repetition of its request in the same ones.

use super::ledger;
use crate::support::app::{BODY_MARKER, unix_now};
use crate::support::on_both_stores;
use crate::support::signing::{hmac_base64, hmac_hex};
use crate::support::{Backend, Request, Setup};

const SECRET: &str = "never-log-this-secret";

/// Refuses every event whose type ends in `bad`; answers `odd` ones with a status of its own.
const SOURCES: &str = r#"
[[source]]
name = "mailgun"
verify = { scheme = "mailgun", secrets = ["never-log-this-secret"] }
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CASE WHEN type = 'bad' THEN -1 ELSE 1 END FROM event RETURNING event_id, 202 AS status"
[[source]]
name = "slack"
verify = { scheme = "slack", secrets = ["never-log-this-secret"] }
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CASE WHEN type = 'bad' THEN -1 ELSE 1 END FROM event"
[[source]]
name = "postmark"
verify = { scheme = "postmark", secrets = ["user:never-log-this-secret"] }
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CASE WHEN type = 'bad' THEN -1 ELSE 1 END FROM event"
[[source]]
name = "xero"
verify = { scheme = "xero", secrets = ["never-log-this-secret"] }
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CASE WHEN type = 'bad:bad' THEN -1 ELSE 1 END FROM event"
[[source]]
name = "lists"
verify = { scheme = "mailgun", secrets = ["never-log-this-secret"] }
event_id = "body:/nowhere"
"#;

fn mailgun(source: &str, id: &str, kind: &str) -> Request {
    let now = unix_now();
    let signature = hmac_hex(SECRET, format!("{now}token-1").as_bytes());
    Request::post(
        &format!("/hooks/{source}"),
        format!(
            r#"{{"signature":{{"timestamp":"{now}","token":"token-1","signature":"{signature}"}},"event-data":{{"id":"{id}","event":"{kind}","note":"{BODY_MARKER}"}}}}"#
        ),
    )
}

fn slack(id: &str, kind: &str) -> Request {
    let now = unix_now().to_string();
    let body = format!(r#"{{"type":"event_callback","event_id":"{id}","event":{{"type":"{kind}"}}}}"#);
    let signature = hmac_hex(SECRET, format!("v0:{now}:{body}").as_bytes());
    Request::post("/hooks/slack", body)
        .header("x-slack-request-timestamp", &now)
        .header("x-slack-signature", format!("v0={signature}"))
}

fn postmark(id: &str, kind: &str) -> Request {
    let credentials = base64_of("user:never-log-this-secret");
    Request::post(
        "/hooks/postmark",
        format!(r#"{{"MessageID":"{id}","RecordType":"{kind}","ReceivedAt":"1"}}"#),
    )
    .header("authorization", format!("Basic {credentials}"))
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn xero(id: &str, kind: &str) -> Request {
    let body = format!(
        r#"{{"events":[{{"resourceId":"{id}","eventDateUtc":"2026-01-01T00:00:00.000","eventCategory":"{kind}","eventType":"{kind}"}}]}}"#
    );
    let signature = hmac_base64(SECRET, body.as_bytes());
    Request::post("/hooks/xero", body).header("x-xero-signature", signature)
}

on_both_stores! {
    async fn an_event_refused_for_good_is_not_sent_again(backend: Backend) {
        let app = Setup::new(backend).sources(SOURCES).start().await;
        for (request, status) in [
            (mailgun("mailgun", "m-1", "bad"), 406),
            (slack("Ev1", "bad"), 422),
            (postmark("p-1", "bad"), 403),
            (xero("x-1", "bad"), 422),
        ] {
            let first = app.send(&request).await;
            first.expect(status, "rejected");
            let again = app.send(&request).await;
            assert_eq!((again.status, &again.body), (first.status, &first.body), "{again:?}");
            assert!(["replayed", "rejected"].contains(&again.outcome()), "{again:?}");
            for answer in [&first, &again] {
                let is_slack = request.target == "/hooks/slack";
                assert_eq!(answer.header("x-slack-no-retry"), is_slack.then_some("1"), "{answer:?}");
                if request.target == "/hooks/xero" {
                    assert_eq!((answer.body.len(), answer.header("content-type")), (0, None), "{answer:?}");
                } else {
                    assert_eq!(answer.problem(), "event-rejected");
                }
            }
        }
        assert_eq!(app.database.effects().await, 0);
        let lines = ledger(&app, "source=mailgun", 2).await;
        assert!(lines.iter().all(|line| line["status"] == 406), "the ledger says what was said: {lines:?}");
    }

    async fn a_success_is_one_that_the_sender_knows(backend: Backend) {
        let app = Setup::new(backend).sources(SOURCES).start().await;
        let request = mailgun("mailgun", "m-1", "delivered");
        // The handler says 202, which Mailgun would take for a failure.
        app.send(&request).await.expect(200, "applied");
        app.send(&request).await.expect(200, "replayed");
        let applied = app.send(&xero("x-1", "good")).await;
        applied.expect(200, "applied");
        assert_eq!((applied.body.len(), applied.header("content-type")), (0, None));
        assert_eq!(app.send(&xero("x-1", "good")).await.body.len(), 0);
        app.send(&slack("Ev1", "good")).await.expect(200, "applied");
        assert_eq!(app.database.effects().await, 3);
    }

    async fn what_was_not_kept_may_come_again(backend: Backend) {
        let app = Setup::new(backend).sources(SOURCES).start().await;
        // An event id where there is none: the operator's mistake, which must not cost the event.
        let malformed = app.send(&mailgun("lists", "m-1", "delivered")).await;
        malformed.expect(400, "malformed");
        let unsigned = app.send(&slack("Ev1", "good").without("x-slack-signature")).await;
        unsigned.expect(401, "unverified");
        assert_eq!(unsigned.header("x-slack-no-retry"), None);
        app.send(&postmark("p-1", "good").without("authorization")).await.expect(401, "unverified");
    }
}
