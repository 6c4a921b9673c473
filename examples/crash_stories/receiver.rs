//! The receiver: an HTTP endpoint on loopback with two consumers behind it, each with transactions of its
//! own. One takes every delivery for a new event; the other remembers which it has processed.
//!
//! It can refuse a POST, and it can take one without its answer ever arriving.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, web};
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::Mutex;

use super::Failure;

const TABLES: [&str; 3] = [
    "CREATE TABLE processed (event_id text PRIMARY KEY) STRICT",
    "CREATE TABLE effects_checked (event_id text NOT NULL) STRICT",
    "CREATE TABLE effects_unchecked (event_id text NOT NULL) STRICT",
];

/// What happens to the POSTs from a certain one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// This one is answered 500.
    Refused(usize),
    /// From this one on they are taken, and the answers do not arrive until [`Receiver::answer`].
    Unanswered(usize),
}

/// What has been counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) posts: usize,
    /// Deliveries that were taken.
    pub(crate) taken: usize,
    /// Events that were taken.
    pub(crate) events: usize,
    pub(crate) effects_unchecked: usize,
    pub(crate) effects_checked: usize,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    counting: Arc<Counting>,
    server: ServerHandle,
}

#[derive(Debug)]
struct Counting {
    trouble: Trouble,
    answers: AtomicBool,
    posts: AtomicUsize,
    unanswered: AtomicUsize,
    taken: Mutex<HashMap<String, usize>>,
    consumers: Mutex<SqliteConnection>,
}

impl Receiver {
    pub(crate) async fn start(trouble: Trouble) -> Result<Self, Failure> {
        let mut consumers = SqliteConnection::connect("sqlite::memory:").await?;
        for table in TABLES {
            sqlx::query(table).execute(&mut consumers).await?;
        }
        let counting = Arc::new(Counting {
            trouble,
            answers: AtomicBool::new(false),
            posts: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
            taken: Mutex::default(),
            consumers: Mutex::new(consumers),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("http://{}/events", listener.local_addr()?);
        let shared = web::Data::from(counting.clone());
        let server = HttpServer::new(move || {
            App::new().app_data(shared.clone()).route("/events", web::post().to(receive))
        })
        .workers(1)
        .disable_signals()
        .listen(listener)?
        .run();
        let handle = server.handle();
        tokio::spawn(server);
        Ok(Self { url, counting, server: handle })
    }

    /// How many POSTs wait for an answer that does not come.
    pub(crate) fn unanswered(&self) -> usize {
        self.counting.unanswered.load(Ordering::SeqCst)
    }

    /// From now on there is no trouble.
    pub(crate) fn answer(&self) {
        self.counting.answers.store(true, Ordering::SeqCst);
    }

    /// Closes the endpoint and counts.
    pub(crate) async fn stop(self) -> Result<Counted, Failure> {
        self.server.stop(false).await;
        let taken = self.counting.taken.lock().await;
        let mut consumers = self.counting.consumers.lock().await;
        let unchecked: i64 =
            sqlx::query_scalar("SELECT count(*) FROM effects_unchecked").fetch_one(&mut *consumers).await?;
        let checked: i64 =
            sqlx::query_scalar("SELECT count(*) FROM effects_checked").fetch_one(&mut *consumers).await?;
        Ok(Counted {
            posts: self.counting.posts.load(Ordering::SeqCst),
            taken: taken.values().sum(),
            events: taken.len(),
            effects_unchecked: usize::try_from(unchecked)?,
            effects_checked: usize::try_from(checked)?,
        })
    }
}

async fn receive(counting: web::Data<Counting>, body: web::Bytes) -> HttpResponse {
    let post = counting.posts.fetch_add(1, Ordering::SeqCst) + 1;
    if counting.trouble == Trouble::Refused(post) {
        return HttpResponse::InternalServerError().finish();
    }
    let event: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(id) = event["id"].as_str() else { return HttpResponse::BadRequest().finish() };
    if let Err(error) = counting.consume(id).await {
        eprintln!("crash_stories: a consumer failed: {error}");
        return HttpResponse::ServiceUnavailable().finish();
    }
    match counting.trouble {
        Trouble::Unanswered(from) if post >= from && !counting.answers.load(Ordering::SeqCst) => {
            counting.unanswered.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
        _ => HttpResponse::Ok().finish(),
    }
}

impl Counting {
    async fn consume(&self, event_id: &str) -> Result<(), sqlx::Error> {
        let mut consumers = self.consumers.lock().await;
        without_dedup(&mut consumers, event_id).await?;
        with_dedup(&mut consumers, event_id).await?;
        *self.taken.lock().await.entry(event_id.to_owned()).or_default() += 1;
        Ok(())
    }
}

/// Every delivery takes effect.
async fn without_dedup(consumer: &mut SqliteConnection, event_id: &str) -> Result<(), sqlx::Error> {
    let mut transaction = consumer.begin().await?;
    let insert = sqlx::query("INSERT INTO effects_unchecked (event_id) VALUES ($1)").bind(event_id);
    insert.execute(&mut *transaction).await?;
    transaction.commit().await
}

/// The id and the effect are one transaction: an event takes effect once.
async fn with_dedup(consumer: &mut SqliteConnection, event_id: &str) -> Result<(), sqlx::Error> {
    let mut transaction = consumer.begin().await?;
    let insert = "INSERT INTO processed (event_id) VALUES ($1) ON CONFLICT DO NOTHING";
    let is_new = sqlx::query(insert).bind(event_id).execute(&mut *transaction).await?.rows_affected() > 0;
    if is_new {
        let insert = sqlx::query("INSERT INTO effects_checked (event_id) VALUES ($1)").bind(event_id);
        insert.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
