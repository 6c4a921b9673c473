//! Two claims, or a claim and a redrive, at the very moment at which they meet: on PostgreSQL, where they run
//! side by side. Each is held where it must be by a lock, so that nothing depends on time.

use std::time::Duration;

use hooklatch::store::Store;
use hooklatch::store::outbox::{MessageFate, MessageFilter, MessageState};
use sqlx::Connection as _;
use uuid::Uuid;

use super::contract::{LEASE, claim, database, round, texts};
use super::sink::Sink;
use super::{relaying, wait_for, write};
use crate::support::app::said;
use crate::support::{Backend, TestDatabase};

async fn dead(store: &dyn Store) -> Vec<Uuid> {
    let dead =
        MessageFilter { states: Some(vec![MessageState::Dead]), limit: 10, ..MessageFilter::default() };
    store.messages(&dead).await.expect("reads").iter().map(|message| message.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_not_revived_past_a_claim_that_is_under_way() {
    let (database, store) = database(Backend::Postgres).await;
    write(&database, &[("a1", Some("a")), ("a2", Some("a"))]).await;
    assert_eq!(round(&*store, MessageFate::Dead).await, ["a1"]);
    // A claim of a2 that has not been committed.
    let mut other = sqlx::PgConnection::connect(&database.url).await.expect("connects");
    let mut claim = other.begin().await.expect("begins");
    sqlx::raw_sql(
        "UPDATE hooklatch.outbox SET state = 'retry', attempts = 1, lease_token = gen_random_uuid(),
             leased_until = now() + interval '1 minute', next_attempt_at = now() + interval '1 minute'
         WHERE payload = 'a2'",
    )
    .execute(&mut *claim)
    .await
    .expect("claims");
    let ids = dead(&*store).await;
    let reviving = tokio::spawn({
        let store = store.clone();
        async move { store.revive_messages(&ids).await.expect("revives") }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!reviving.is_finished(), "it waits for the claim");
    assert!(round(&*store, MessageFate::Sent).await.is_empty());
    claim.commit().await.expect("commits");
    assert_eq!(reviving.await.expect("no panic"), 1);
    assert!(round(&*store, MessageFate::Sent).await.is_empty(), "a2 is on its way");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_starts_sends_nothing_before_it_knows_what_is_paused() {
    let sink = Sink::start().await;
    let mut app = relaying(Backend::Postgres, &sink.url(), "").start().await;
    let paused = app.run(&["destinations", "pause", "crm"]);
    assert!(paused.status.success(), "{}", said(&paused));
    assert_eq!(app.stop(), Some(0));
    write(&app.database, &[("1", None)]).await;
    // Nobody can read what is paused.
    let mut other = sqlx::PgConnection::connect(&app.database.url).await.expect("connects");
    let mut lock = other.begin().await.expect("begins");
    sqlx::raw_sql("LOCK TABLE hooklatch.destinations").execute(&mut *lock).await.expect("locks");
    app.start();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(sink.received().len(), 0, "nothing is known of it");
    lock.commit().await.expect("commits");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(sink.received().len(), 0, "it is paused");
    let resumed = app.run(&["destinations", "resume", "crm"]);
    assert!(resumed.status.success(), "{}", said(&resumed));
    wait_for(&app, "sent", 1).await;
}

/// Stops whoever claims `payload` between choosing it and committing, until `release` is told.
async fn hold_claims_of(database: &TestDatabase, payload: &str) -> sqlx::PgConnection {
    let mut holder = sqlx::PgConnection::connect(&database.url).await.expect("connects");
    let hold = format!(
        "SELECT pg_advisory_lock(7);
         CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF new.payload = '{payload}' AND new.lease_token IS NOT NULL THEN
                 PERFORM pg_advisory_xact_lock_shared(7);
             END IF;
             RETURN new;
         END $$;
         CREATE TRIGGER hold BEFORE UPDATE ON hooklatch.outbox FOR EACH ROW EXECUTE FUNCTION hold()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(hold)).execute(&mut holder).await.expect("holds");
    holder
}

/// Waits until somebody waits for this lock. Other tests' databases have locks of the same numbers.
async fn until_held(database: &TestDatabase, lock: u8) {
    let held = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {lock} AND NOT granted
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    while database.number(&held).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn release(holder: &mut sqlx::PgConnection) {
    sqlx::raw_sql("SELECT pg_advisory_unlock(7)").execute(holder).await.expect("releases");
}

/// How many messages of `a` are on their way.
async fn out(database: &TestDatabase) -> i64 {
    database
        .number("SELECT count(*) FROM hooklatch.outbox WHERE aggregate_id = 'a' AND leased_until > now()")
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_committed_late_is_not_out_beside_the_one_that_is_being_claimed() {
    let (database, store) = database(Backend::Postgres).await;
    let mut holder = hold_claims_of(&database, "a2").await;
    let mut slow = sqlx::PgConnection::connect(&database.url).await.expect("connects");
    let mut late = slow.begin().await.expect("begins");
    sqlx::raw_sql(
        "INSERT INTO hooklatch.outbox (destination, aggregate_id, payload) VALUES ('crm', 'a', 'a1')",
    )
    .execute(&mut *late)
    .await
    .expect("inserts");
    write(&database, &[("a2", Some("a"))]).await;
    let other = store.clone();
    let claiming = tokio::spawn(async move { claim(&*other, LEASE).await });
    until_held(&database, 7).await;
    late.commit().await.expect("commits");
    let (_, second) = claim(&*store, LEASE).await;
    release(&mut holder).await;
    let (_, first) = claiming.await.expect("no panic");
    let together: Vec<_> = texts(&first).into_iter().chain(texts(&second)).collect();
    assert!(together.len() <= 1, "{together:?} are out at the same time");
    assert_eq!(out(&database).await, i64::try_from(together.len()).expect("few"));
}

/// The claim of a2 has looked before a1 was revived, and locks after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_revived_is_not_out_beside_one_whose_claim_looked_before() {
    let (database, store) = database(Backend::Postgres).await;
    write(&database, &[("a1", Some("a")), ("a2", Some("a"))]).await;
    assert_eq!(round(&*store, MessageFate::Dead).await, ["a1"]);
    let ids = dead(&*store).await;
    let mut holder = hold_claims_of(&database, "a2").await;
    // The first who reads a2 through this view stops before it is locked.
    let mut looks = sqlx::PgConnection::connect(&database.url).await.expect("connects");
    sqlx::raw_sql(
        "SELECT pg_advisory_lock(8);
         CREATE SEQUENCE looked;
         CREATE FUNCTION look(payload bytea) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
         BEGIN
             IF payload = 'a2' AND nextval('public.looked') = 1 THEN
                 PERFORM pg_advisory_xact_lock_shared(8);
             END IF;
             RETURN true;
         END $$;
         ALTER TABLE hooklatch.outbox RENAME TO outbox_rows;
         CREATE VIEW hooklatch.outbox AS SELECT * FROM hooklatch.outbox_rows WHERE look(payload)",
    )
    .execute(&mut looks)
    .await
    .expect("prepares");
    let other = store.clone();
    let claiming = tokio::spawn(async move { claim(&*other, LEASE).await });
    until_held(&database, 8).await;
    assert_eq!(store.revive_messages(&ids).await.expect("revives"), 1);
    sqlx::raw_sql("SELECT pg_advisory_unlock(8)").execute(&mut looks).await.expect("releases");
    // It goes on, locks a2, and is held before it commits.
    until_held(&database, 7).await;
    let (_, second) = claim(&*store, LEASE).await;
    release(&mut holder).await;
    let (_, first) = claiming.await.expect("no panic");
    let together: Vec<_> = texts(&first).into_iter().chain(texts(&second)).collect();
    assert!(together.len() <= 1, "{together:?} are out at the same time");
}
