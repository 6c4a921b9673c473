//! What an operator meets at the command line: wrong directories, wrong ids, databases that are not ready,
//! output that is read by another program.

use std::process::{Command, Stdio};

use crate::support::app::{PROGRAM, TestApp, order, said};
use crate::support::database::TestDatabase;
use crate::support::{Backend, Request, Setup, on_both_stores};

use super::{GITHUB, all_at_once, ledger, patient, slow_source};

/// What looks at a database, and what changes it.
const OPERATORS: [&[&str]; 6] = [
    &["events", "list"],
    &["events", "show", "evt_1"],
    &["events", "refused"],
    &["outbox", "list"],
    &["destinations", "list"],
    &["prune"],
];

/// The program in the test's own directory, with nothing but this database.
fn at(database: &TestDatabase, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_clear().env("HOOKLATCH__DATABASE__URL", &database.url);
    command.current_dir(database.directory()).stdin(Stdio::null());
    command
}

/// Ends the program's output after its first bytes, as `| head` does; returns what it said on standard error.
fn cut_short(app: &TestApp, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = app.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

on_both_stores! {
    async fn operators_of_a_database_that_was_never_migrated_are_told_to_migrate(backend: Backend) {
        let database = TestDatabase::new(backend).await;
        for arguments in OPERATORS {
            let refused = at(&database, arguments).output().expect("runs");
            assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {}", said(&refused));
            assert!(said(&refused).contains("hooklatch migrate"), "{arguments:?}: {}", said(&refused));
        }
    }

    async fn operators_leave_a_database_of_a_newer_program_alone(backend: Backend) {
        let mut app = Setup::new(backend).start().await;
        assert_eq!(app.stop(), Some(0));
        app.database.make_newer().await;
        for arguments in OPERATORS {
            let refused = app.run(arguments);
            assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {}", said(&refused));
            assert!(said(&refused).contains("run a newer hooklatch"), "{arguments:?}: {}", said(&refused));
        }
    }

    async fn what_is_no_id_is_answered_with_where_ids_are(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for (arguments, way_out) in [
            (&["events", "retry", "evt_1"][..], "--event-id"),
            (&["outbox", "show", "evt_1"], "hooklatch outbox list"),
            (&["outbox", "retry", "evt_1"], "hooklatch outbox list"),
            (&["destinations", "pause", "crm"], "[[destination]]"),
            (&["events", "forget", "--source", "crm", "evt_1"], "there are: shop"),
            (&["explain", "--source", "crm", "--request", "x"], "there are: shop"),
        ] {
            let refused = app.run(arguments);
            assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", said(&refused));
            assert!(said(&refused).contains(way_out), "{arguments:?}: {}", said(&refused));
        }
    }

    async fn a_delivery_that_fails_says_where_to_look(backend: Backend) {
        let mut app = Setup::new(backend).start().await;
        let body = app.database.directory().join("body.json");
        let body = body.to_str().expect("a path of text").to_owned();
        std::fs::write(&body, r#"{"id":"evt_1","data":{"amount":-1}}"#).expect("writes");
        let url = format!("http://{}/hooks/shop", app.public());
        let send = ["send", "--source", "shop", "--url", &url, &body];
        let rejected = app.run(&send);
        assert_eq!(rejected.status.code(), Some(1), "{}", said(&rejected));
        assert!(said(&rejected).contains("hooklatch events show"), "{}", said(&rejected));
        std::fs::write(&body, "x").expect("writes");
        let malformed = app.run(&send);
        assert!(said(&malformed).contains("hooklatch events refused"), "{}", said(&malformed));
        assert_eq!(app.stop(), Some(0));
        let nobody = app.run(&send);
        assert_eq!(nobody.status.code(), Some(1), "{}", said(&nobody));
        assert!(said(&nobody).contains("is hooklatch running there?"), "{}", said(&nobody));
    }

    async fn a_source_that_is_none_is_remarked_on_where_nothing_is_found(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for command in ["list", "refused"] {
            let found = app.run(&["events", command, "--source", "shpo"]);
            assert!(found.status.success(), "{}", said(&found));
            assert!(said(&found).contains("there are: shop"), "{command}: {}", said(&found));
            let none = app.run(&["events", command, "--source", "shop"]);
            assert!(!said(&none).contains("there are"), "{command}: {}", said(&none));
        }
    }

    async fn a_dead_letter_that_is_named_and_not_there_is_a_failure(backend: Backend) {
        let app = Setup::new(backend).start().await;
        for command in ["retry", "discard"] {
            let refused = app.run(&["events", command, "--event-id", "evt_none", "--yes"]);
            assert_eq!(refused.status.code(), Some(1), "{command}: {}", said(&refused));
            assert!(said(&refused).contains("hooklatch events show"), "{command}: {}", said(&refused));
        }
        let nothing = app.run(&["events", "retry", "--source", "shop", "--yes"]);
        assert!(nothing.status.success(), "nothing to do is no failure: {}", said(&nothing));
    }

    async fn a_reader_that_has_seen_enough_ends_the_program_quietly(backend: Backend) {
        let app = Setup::new(backend).start().await;
        app.deliver("shop", order("evt_1")).await.expect(200, "applied");
        for arguments in [&["events", "list"][..], &["events", "show", "evt_1"], &["prune", "--dry-run"], &["check"]] {
            let (code, said) = cut_short(&app, arguments);
            assert_eq!(code, Some(141), "{arguments:?}: {said}");
            assert!(said.is_empty(), "{arguments:?}: {said}");
        }
    }

    async fn a_refused_delivery_is_found_by_the_id_in_its_header(backend: Backend) {
        let app = Setup::new(backend).sources(GITHUB).start().await;
        let forged = Request::post("/hooks/github", "{}")
            .header("x-github-delivery", "evt_forged")
            .header("x-hub-signature-256", format!("sha256={}", "0".repeat(64)));
        app.send(&forged).await.expect(401, "unverified");
        ledger(&app, "outcome=unverified", 1).await;
        let shown = app.run(&["events", "show", "evt_forged"]);
        assert!(shown.status.success() && said(&shown).contains("delivery: unverified"), "{}", said(&shown));
        assert!(said(&shown).contains("it has not taken effect"), "{}", said(&shown));
        let unknown = app.run(&["events", "show", "evt_other"]);
        assert_eq!(unknown.status.code(), Some(1));
        assert!(said(&unknown).contains("hooklatch events refused"), "{}", said(&unknown));
    }

    async fn a_copy_that_comes_while_the_first_is_failing_is_never_called_a_success(backend: Backend) {
        let failing = slow_source(backend, "slow", 1.0).await
            + "[[source.handler]]\nsql = \"INSERT INTO charges (event_id, account) SELECT id, 'nobody' FROM event\"\n";
        let app = patient(Setup::new(backend)).sources(&failing).set("inbox.inflight_wait", "\"300ms\"").start().await;
        let request = Request::post("/hooks/slow", r#"{"id":"evt_1"}"#);
        let copies = all_at_once(app.public(), vec![request.clone(), request.clone(), request]).await;
        for answer in copies {
            assert!(!answer.is_success(), "{answer:?}");
        }
        assert_eq!(app.database.effects().await, 0);
    }
}

#[tokio::test]
async fn looking_for_events_in_the_wrong_directory_makes_no_database() {
    let database = TestDatabase::new(Backend::Sqlite).await;
    let elsewhere = database.directory().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("creates");
    for arguments in OPERATORS.iter().copied().chain([&["check"][..]]) {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_clear().current_dir(&elsewhere).stdin(Stdio::null());
        let output = command.output().expect("runs");
        assert!(said(&output).contains("hooklatch.db"), "{arguments:?}: {}", said(&output));
        assert_eq!(output.status.success(), arguments == ["check"], "{arguments:?}: {}", said(&output));
    }
    assert_eq!(std::fs::read_dir(&elsewhere).expect("reads").count(), 0, "something was left behind");
}

#[cfg(unix)]
#[tokio::test]
async fn check_says_that_a_database_cannot_be_made_here() {
    let database = TestDatabase::new(Backend::Sqlite).await;
    let mut check = at(&database, &["check"]);
    check.env("HOOKLATCH__DATABASE__URL", format!("sqlite://{}/no/such.db", database.directory().display()));
    let checked = check.output().expect("runs");
    assert_eq!(checked.status.code(), Some(1), "{}", said(&checked));
    assert!(said(&checked).contains("make its directory first"), "{}", said(&checked));
}
