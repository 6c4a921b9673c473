//! What each store promises of the outbox: the verbs themselves, without a relay.

use std::sync::Arc;
use std::time::Duration;

use hooklatch::clock::{self, Clock};
use hooklatch::handler::HandlerConnection;
use hooklatch::outbox::{Message, enqueue};
use hooklatch::store::Prunable;
use hooklatch::store::Store;
use hooklatch::store::outbox::{
    ClaimRequest, Claimed, Lease, MessageFate, MessageFilter, MessageState, OutboxStore as _, Settlement,
};
use hooklatch::store::postgres::{PostgresOptions, PostgresStore, StatementCache};
use hooklatch::store::sqlite::SqliteStore;
use sqlx::Connection as _;
use uuid::Uuid;

use super::{in_state, table, write};
use crate::support::{Backend, TestDatabase, on_both_stores};

pub(super) const LEASE: Duration = Duration::from_secs(60);

pub(super) async fn database(backend: Backend) -> (TestDatabase, Arc<dyn Store>) {
    database_at(backend, Clock::system()).await
}

/// On SQLite `clock` decides.
pub(super) async fn database_at(backend: Backend, clock: Clock) -> (TestDatabase, Arc<dyn Store>) {
    let database = TestDatabase::new(backend).await;
    let store: Arc<dyn Store> = match backend {
        Backend::Sqlite => Arc::new(SqliteStore::connect(&database.url, clock).await.expect("opens")),
        Backend::Postgres => {
            let options = PostgresOptions {
                url: database.url.clone(),
                max_connections: 8,
                acquire_timeout: Duration::from_secs(10),
                statement_cache: StatementCache::On,
                batch_limits: None,
            };
            Arc::new(PostgresStore::connect(options).await.expect("opens"))
        }
    };
    store.migrate().await.expect("migrates");
    (database, store)
}

pub(super) async fn claim(store: &dyn Store, lease: Duration) -> (Uuid, Claimed) {
    let token = clock::new_id();
    let request = ClaimRequest { destination: "crm", most_new: 100, most_retries: 100, token, lease };
    (token, store.claim_messages(&request).await.expect("claims"))
}

pub(super) fn texts(claimed: &Claimed) -> Vec<String> {
    claimed.messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

fn settlement(id: Uuid, token: Uuid, fate: MessageFate) -> Settlement {
    let sent = fate == MessageFate::Sent;
    Settlement {
        lease: Lease { id, token },
        fate,
        status: Some(if sent { 200 } else { 500 }),
        error: (!sent).then(|| "answered 500".to_owned()),
        answer: "seen".into(),
        answer_bytes: 4,
        latency: Duration::from_millis(3),
    }
}

/// Claims all there is and settles all of it.
pub(super) async fn round(store: &dyn Store, fate: MessageFate) -> Vec<String> {
    let (token, claimed) = claim(store, LEASE).await;
    let results: Vec<_> = claimed.messages.iter().map(|m| settlement(m.id, token, fate)).collect();
    if !results.is_empty() {
        assert_eq!(store.settle_messages(&results).await.expect("settles").ids.len(), results.len());
    }
    texts(&claimed)
}

on_both_stores! {
    async fn a_claimed_message_is_nobody_elses_until_its_lease_ends(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("1", None), ("2", None)]).await;
        let short = Duration::from_millis(300);
        let (token, claimed) = claim(&*store, short).await;
        assert_eq!(texts(&claimed), ["1", "2"]);
        assert!(texts(&claim(&*store, LEASE).await.1).is_empty());

        let held = [Lease { id: claimed.messages[0].id, token }];
        assert_eq!(store.extend_leases(&held, LEASE).await.expect("extends"), [held[0].id]);
        tokio::time::sleep(short).await;
        let (_, again) = claim(&*store, LEASE).await;
        assert_eq!((texts(&again), again.expired), (vec!["2".to_owned()], 1));
        assert_eq!(again.messages[0].attempts, 2);

        let stale = [Lease { id: claimed.messages[1].id, token }];
        assert!(store.extend_leases(&stale, LEASE).await.expect("answers").is_empty());
        let results = [settlement(stale[0].id, token, MessageFate::Sent), settlement(held[0].id, token, MessageFate::Sent)];
        assert_eq!(store.settle_messages(&results).await.expect("settles").ids, [held[0].id]);
    }

    async fn what_is_given_back_was_never_tried(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("1", None)]).await;
        let (token, claimed) = claim(&*store, LEASE).await;
        store.release_messages(&[Lease { id: claimed.messages[0].id, token }]).await.expect("releases");
        let (_, again) = claim(&*store, LEASE).await;
        assert_eq!((again.messages[0].attempts, again.expired), (1, 0));
    }

    async fn one_message_of_an_aggregate_is_out_at_a_time_in_order(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a")), ("b1", Some("b")), ("x", None)]).await;
        let first = round(&*store, MessageFate::Sent).await;
        assert_eq!(first, ["a1", "b1", "x"]);
        assert_eq!(round(&*store, MessageFate::Retry(Duration::ZERO)).await, ["a2"]);
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a2"], "the one that failed goes first");
        assert_eq!(round(&*store, MessageFate::Dead).await, ["a3"]);
        assert!(round(&*store, MessageFate::Sent).await.is_empty());
    }

    async fn a_blocking_message_holds_its_aggregate_until_it_is_revived_or_discarded(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a"))]).await;
        assert_eq!(round(&*store, MessageFate::Blocking).await, ["a1"]);
        assert!(round(&*store, MessageFate::Sent).await.is_empty());
        let blocking = MessageFilter { states: Some(vec![MessageState::Blocking]), limit: 10, ..MessageFilter::default() };
        let ids: Vec<_> = store.messages(&blocking).await.expect("reads").iter().map(|m| m.id).collect();
        assert_eq!(store.revive_messages(&ids).await.expect("revives"), 1);
        assert_eq!(round(&*store, MessageFate::Blocking).await, ["a1"]);
        assert_eq!(store.message_attempts(ids[0]).await.expect("reads").len(), 2);
        assert_eq!(store.discard_messages(&ids).await.expect("discards"), 1);
        assert_eq!(store.message_attempts(ids[0]).await.expect("reads").len(), 0);
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a2"]);
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a3"]);
    }

    async fn what_waits_for_a_message_that_was_deleted_by_hand_is_freed_in_order(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a")), ("b1", Some("b")), ("b2", Some("b"))]).await;
        assert_eq!(round(&*store, MessageFate::Retry(LEASE)).await, ["a1", "b1"]);
        assert_eq!(store.free_orphans("crm").await.expect("looks"), 0, "they wait for one that is there");
        let outbox = table(backend, "outbox");
        let a1 = match backend { Backend::Sqlite => "CAST(payload AS TEXT) = 'a1'", Backend::Postgres => "payload = 'a1'" };
        database.execute(&format!("DELETE FROM {outbox} WHERE {a1}")).await;
        assert!(round(&*store, MessageFate::Sent).await.is_empty(), "nobody has told them");
        assert_eq!(store.free_orphans("other").await.expect("looks"), 0);
        assert_eq!(store.free_orphans("crm").await.expect("frees"), 1);
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a2"]);
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a3"]);
        assert!(round(&*store, MessageFate::Sent).await.is_empty(), "b2 waits for b1");
    }

    async fn a_dead_message_that_is_revived_goes_before_what_has_not_left(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("a1", Some("a")), ("a2", Some("a")), ("a3", Some("a"))]).await;
        assert_eq!(round(&*store, MessageFate::Dead).await, ["a1"]);
        let (token, claimed) = claim(&*store, LEASE).await;
        assert_eq!(texts(&claimed), ["a2"]);
        let dead = MessageFilter { states: Some(vec![MessageState::Dead]), limit: 10, ..MessageFilter::default() };
        let ids: Vec<_> = store.messages(&dead).await.expect("reads").iter().map(|m| m.id).collect();
        store.revive_messages(&ids).await.expect("revives");
        assert!(texts(&claim(&*store, LEASE).await.1).is_empty(), "a2 is on its way");
        store.settle_messages(&[settlement(claimed.messages[0].id, token, MessageFate::Sent)]).await.expect("settles");
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a1"]);
        assert_eq!(round(&*store, MessageFate::Sent).await, ["a3"]);
    }

    async fn a_message_that_was_revived_is_out_of_its_last_holders_hands(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("1", None)]).await;
        let (token, claimed) = claim(&*store, Duration::ZERO).await;
        let stale = [Lease { id: claimed.messages[0].id, token }];
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(store.revive_messages(&[stale[0].id]).await.expect("revives"), 1);
        // Its holder stood still, and goes on now.
        assert!(store.extend_leases(&stale, LEASE).await.expect("answers").is_empty());
        store.release_messages(&stale).await.expect("answers");
        let given_up = [settlement(stale[0].id, token, MessageFate::Dead)];
        assert!(store.settle_messages(&given_up).await.expect("answers").ids.is_empty());
        let all = store.messages(&MessageFilter { limit: 10, ..MessageFilter::default() }).await.expect("reads");
        assert_eq!((all[0].state, all[0].attempts), (MessageState::New, 0));
        let (_, again) = claim(&*store, LEASE).await;
        assert_eq!((again.messages[0].attempts, again.expired), (1, 0));
    }

    async fn a_result_that_comes_too_late_leaves_no_note_beside_the_one_that_counts(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("1", None)]).await;
        let (stale, claimed) = claim(&*store, Duration::ZERO).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let (token, _) = claim(&*store, LEASE).await;
        let id = claimed.messages[0].id;
        let results = [settlement(id, stale, MessageFate::Dead), settlement(id, token, MessageFate::Sent)];
        assert_eq!(store.settle_messages(&results).await.expect("settles").ids, [id]);
        assert!(store.message_attempts(id).await.expect("reads").is_empty());
        assert_eq!(in_state(&database, "sent").await, 1);
    }

    async fn headers_that_cannot_be_read_hold_no_other_message_back(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("first", None)]).await;
        // What the databases take for an object, and others do not take for JSON.
        let odd: &[&str] = match backend {
            Backend::Sqlite => &[r#"{"a": "\ud800"}"#, r#"{"\ud800": "a"}"#, "{a: 1}", r#"{"a": 1e999}"#],
            Backend::Postgres => &[r#"{"a": 1e999}"#],
        };
        for headers in odd {
            let outbox = table(backend, "outbox");
            database.execute(&format!("INSERT INTO {outbox} (destination, payload, headers) VALUES ('crm', 'odd', '{headers}')")).await;
        }
        write(&database, &[("last", None)]).await;
        let all = store.messages(&MessageFilter { limit: 10, ..MessageFilter::default() }).await.expect("lists");
        assert_eq!(all.len(), odd.len() + 2);
        let claimed = texts(&claim(&*store, LEASE).await.1);
        assert_eq!(claimed.len(), odd.len() + 2, "{claimed:?}");
    }

    async fn retries_do_not_keep_first_attempts_back(backend: Backend) {
        let (database, store) = database(backend).await;
        let old: Vec<_> = (0..50).map(|_| ("old", None)).collect();
        write(&database, &old).await;
        round(&*store, MessageFate::Retry(Duration::ZERO)).await;
        write(&database, &[("new", None)]).await;
        let request = ClaimRequest { destination: "crm", most_new: 4, most_retries: 2, token: clock::new_id(), lease: LEASE };
        let claimed = store.claim_messages(&request).await.expect("claims");
        assert_eq!(claimed.messages.len(), 3);
        assert!(texts(&claimed).contains(&"new".to_owned()));
    }

    async fn two_claims_at_once_share_nothing(backend: Backend) {
        let (database, store) = database(backend).await;
        let many: Vec<String> = (0..400).map(|n| format!("{n}")).collect();
        let aggregates: Vec<String> = (0..400).map(|n| format!("{}", n % 7)).collect();
        let messages: Vec<_> = many.iter().zip(&aggregates).map(|(text, of)| (text.as_str(), Some(of.as_str()))).collect();
        write(&database, &messages).await;
        let workers: Vec<_> = (0..4).map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut got = Vec::new();
                let mut idle = 0;
                while idle < 20 {
                    let some = round(&*store, MessageFate::Sent).await;
                    if some.is_empty() { idle += 1; tokio::time::sleep(Duration::from_millis(5)).await; } else { idle = 0; }
                    got.extend(some);
                }
                got
            })
        }).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.await.expect("no panic"));
        }
        all.sort_by_key(|text| text.parse::<u32>().expect("a number"));
        assert_eq!(all, many, "each once, none forgotten");
    }

    async fn only_what_was_sent_is_pruned(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("sent", None)]).await;
        round(&*store, MessageFate::Retry(Duration::ZERO)).await;
        round(&*store, MessageFate::Sent).await;
        write(&database, &[("dead", None)]).await;
        round(&*store, MessageFate::Dead).await;
        write(&database, &[("new", None)]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let keep = Duration::from_millis(1);
        assert_eq!(store.count_prunable(Prunable::OutboxSent, keep).await.expect("counts"), 1);
        assert_eq!(store.prune(Prunable::OutboxSent, keep, 10).await.expect("prunes"), 1);
        assert_eq!(store.prune(Prunable::OutboxSent, keep, 10).await.expect("prunes"), 0);
        let outbox = table(backend, "outbox");
        assert_eq!(database.number(&format!("SELECT count(*) FROM {outbox}")).await, 2);
        assert_eq!(database.rows("outbox_attempts").await, 1, "the dead one's");
    }

    async fn what_waits_is_counted_by_destination(backend: Backend) {
        let (database, store) = database(backend).await;
        write(&database, &[("1", None), ("2", Some("a")), ("3", Some("a"))]).await;
        assert_eq!(round(&*store, MessageFate::Dead).await, ["1", "2"]);
        let outbox = table(backend, "outbox");
        database.execute(&format!("INSERT INTO {outbox} (destination, payload) VALUES ('other', '1')")).await;
        let backlog = store.backlog().await.expect("counts");
        let told: Vec<_> = backlog.iter().map(|b| (b.destination.as_str(), b.unsent, b.dead)).collect();
        assert_eq!(told, [("crm", 1, 2), ("other", 1, 0)]);
        assert!(backlog.iter().all(|b| b.oldest < LEASE && b.age_p95 <= b.oldest));
    }

    async fn one_in_twenty_that_waits_is_older_than_the_95th_percentile(backend: Backend) {
        const HOUR: u64 = 60 * 60;
        let (database, store) = database(backend).await;
        // Written this many hours ago.
        let written = |hours: u64| match backend {
            Backend::Postgres => format!("now() - interval '{hours} hours'"),
            Backend::Sqlite => {
                let micros = hours * HOUR * 1_000_000;
                format!("CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) - {micros}")
            }
        };
        let row = |destination: &str, hours, state: &str| {
            format!("('{destination}', 'x', 'a', {}, '{state}')", written(hours))
        };
        // In all the states in which one waits, and among what does not wait.
        let waits = |hours| row("crm", hours, ["new", "parked", "retry"][usize::try_from(hours % 3).expect("small")]);
        let gone = [row("crm", 900, "sent"), row("crm", 900, "dead"), row("crm", 900, "blocking")];
        let alone = row("alone", 7, "parked");
        let rows: Vec<_> = gone.into_iter().chain((1..=100).rev().map(waits)).chain([alone]).collect();
        let outbox = table(backend, "outbox");
        database.execute(&format!(
            "INSERT INTO {outbox} (destination, payload, aggregate_id, created_at, state) VALUES {}", rows.join(", ")
        )).await;
        let backlog = store.backlog().await.expect("counts");
        let hours = |age: Duration| age.as_secs() / HOUR;
        let told: Vec<_> = backlog.iter().map(|b| (b.destination.as_str(), b.unsent, hours(b.age_p95))).collect();
        // Of 100 messages 5 are older.
        assert_eq!(told, [("alone", 1, 7), ("crm", 100, 95)]);
    }

    async fn a_destination_is_paused_and_resumed(backend: Backend) {
        let (_database, store) = database(backend).await;
        assert!(store.destination_states().await.expect("reads").is_empty());
        store.pause_destination("crm", "moving").await.expect("pauses");
        store.open_breaker("crm", LEASE, "answered 500").await.expect("opens");
        let state = store.destination_states().await.expect("reads").remove(0);
        assert!(state.paused_at.is_some() && state.open_for > LEASE / 2 && state.open_for <= LEASE);
        assert_eq!((state.pause_reason.as_deref(), state.open_reason.as_deref()), (Some("moving"), Some("answered 500")));
        assert!(store.resume_destination("crm").await.expect("resumes"));
        assert!(!store.resume_destination("crm").await.expect("answers"));
    }

    async fn rust_code_writes_a_message_in_its_own_transaction(backend: Backend) {
        let (database, store) = database(backend).await;
        let message = |text: &str| Message {
            aggregate_id: Some("a".into()),
            headers: vec![("x-a".into(), "b".into())],
            ..Message::new("crm", text)
        };
        match backend {
            Backend::Postgres => {
                let mut connection = sqlx::PgConnection::connect(&database.url).await.expect("connects");
                for (text, keep) in [("undone", false), ("kept", true)] {
                    let mut transaction = connection.begin().await.expect("begins");
                    enqueue(&mut HandlerConnection::Postgres(&mut transaction), &message(text)).await.expect("writes");
                    if keep { transaction.commit().await.expect("commits"); } else { transaction.rollback().await.expect("undoes"); }
                }
            }
            Backend::Sqlite => {
                let mut connection = sqlx::SqliteConnection::connect(&database.url).await.expect("connects");
                for (text, keep) in [("undone", false), ("kept", true)] {
                    let mut transaction = connection.begin().await.expect("begins");
                    enqueue(&mut HandlerConnection::Sqlite(&mut transaction), &message(text)).await.expect("writes");
                    if keep { transaction.commit().await.expect("commits"); } else { transaction.rollback().await.expect("undoes"); }
                }
            }
        }
        let (_, claimed) = claim(&*store, LEASE).await;
        assert_eq!(texts(&claimed), ["kept"]);
        assert_eq!(claimed.messages[0].headers, [("x-a".to_owned(), "b".to_owned())]);
    }
}

/// However much has been sent and waits: a claim on SQLite reads what it asks for.
#[tokio::test]
async fn a_claim_on_sqlite_reads_no_table_to_its_end() {
    let migrations = include_str!("../../../migrations/sqlite/0002_outbox.sql");
    let claim = include_str!("../../../src/store/sqlite/sql/due_messages.sql");
    let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:").await.expect("opens");
    sqlx::raw_sql(migrations).execute(&mut connection).await.expect("migrates");
    let explain = format!("EXPLAIN QUERY PLAN {claim}");
    let explain = sqlx::query_as::<_, (i64, i64, i64, String)>(sqlx::AssertSqlSafe(explain));
    let steps =
        explain.bind("crm").bind(1).bind(1).bind(1).fetch_all(&mut connection).await.expect("explains");
    let plan: Vec<_> = steps.into_iter().map(|(.., step)| step).collect();
    let reads: Vec<_> = plan.iter().filter(|step| step.contains("outbox")).collect();
    assert!(reads.len() >= 4, "{plan:?}");
    assert!(reads.iter().all(|step| step.starts_with("SEARCH")), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_takes_no_connection_from_the_work() {
    let (database, _store) = database(Backend::Postgres).await;
    let options = PostgresOptions {
        url: database.url.clone(),
        max_connections: 1,
        acquire_timeout: Duration::from_secs(10),
        statement_cache: StatementCache::On,
        batch_limits: None,
    };
    let store = PostgresStore::connect(options).await.expect("opens");
    let mut hints = store.outbox_hints().await.expect("listens").expect("there are hints");
    write(&database, &[("1", None)]).await;
    assert_eq!(texts(&claim(&store, LEASE).await.1), ["1"]);
    database.execute("SELECT hooklatch.enqueue('crm', '2')").await;
    assert_eq!(hints.next().await.expect("is told"), "crm");
}

/// SQLite keeps as text whatever a sender binds as one.
#[tokio::test]
async fn a_row_that_is_no_text_on_sqlite_holds_no_other_message_back() {
    let (database, store) = database(Backend::Sqlite).await;
    database
        .execute(
            "INSERT INTO outbox (destination, payload, event_type) VALUES ('crm', 'odd', CAST(x'ff' AS TEXT))",
        )
        .await;
    database.execute("INSERT INTO outbox (destination, payload, hops) VALUES ('crm', 'far', 70000)").await;
    write(&database, &[("good", None)]).await;
    let (_, claimed) = claim(&*store, LEASE).await;
    assert_eq!(texts(&claimed), ["far", "good"]);
    assert_eq!(claimed.messages[0].hops, u16::MAX);
}
