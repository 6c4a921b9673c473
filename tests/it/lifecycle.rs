//! How processes end that should not, or should at once.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hooklatch::app::{App, Role};
use hooklatch::clock::Clock;
use hooklatch::config::{Config, Environment};
use hooklatch::event::{Event, EventKey};
use hooklatch::handler::{
    Handler, HandlerBinding, HandlerConnection, HandlerError, HandlerReply, Step, TypeFilter,
};
use hooklatch::lifecycle;
use hooklatch::source::Source;

use crate::support::app::order;
use crate::support::http::Connection;
use crate::support::on_both_stores;
use crate::support::{Backend, Request, Setup};

/// Long enough for everything but the 25 s that a stop gives to requests.
const AT_ONCE: Duration = Duration::from_secs(5);
const SIGNALLED_BY_SIGTERM: i32 = 143;
const SIGNALLED_BY_SIGINT: i32 = 130;

on_both_stores! {
    async fn a_second_signal_ends_the_process_at_once(backend: Backend) {
        for (second, code) in [("TERM", SIGNALLED_BY_SIGTERM), ("INT", SIGNALLED_BY_SIGINT)] {
            let mut app = Setup::new(backend).start().await;
            // A request that never ends: the process would wait for it.
            let mut stalled = Connection::open(app.public()).await.expect("connects");
            let request = Request::post("/hooks/shop", order("evt_stalled"));
            stalled.write(&request.head()).await.expect("writes");
            tokio::time::sleep(Duration::from_millis(200)).await;
            app.signal("TERM");
            app.logs("a second signal stops at once", 1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let asked = Instant::now();
            app.signal(second);
            assert_eq!(app.ends_within(AT_ONCE).await, Some(code), "after {:?}", asked.elapsed());
            assert!(app.log().contains("stopped at once"), "{}", app.log());
            assert_eq!(app.database.effects().await, 0);
        }
    }
}

/// Panics, which takes the writer of the inbox with it.
struct Panics;

#[async_trait]
impl Handler for Panics {
    async fn apply(
        &self,
        _: HandlerConnection<'_>,
        _: &[&Event],
    ) -> Result<Vec<(EventKey, HandlerReply)>, HandlerError> {
        panic!("on purpose");
    }
}

const DIRECTORY: &str = "HOOKLATCH_TEST_CRASH_IN";
const CRASHED: &str = "the inbox's writer ended unexpectedly; the log says why";

/// The process that crashes: a program of its own, since it listens to signals.
async fn run_until_it_crashes(directory: &str) {
    let text = format!(
        "http.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n\
         database.url = \"sqlite://{directory}/crash.db\"\n\
         [[source]]\nname = \"shop\"\nverify = {{ scheme = \"none\" }}\n"
    );
    let config = Config::parse("test", &text, &Environment::default()).expect("valid");
    let sources = config.run_time_sources().into_iter().map(|source| {
        let step = Step::Code(Arc::new(Panics));
        let handlers = vec![HandlerBinding { on: TypeFilter::default(), step }];
        Arc::new(Source { handlers, ..Source::clone(&source) })
    });
    let app =
        App::build(&config, sources.collect(), &[Role::Receive], Clock::system()).await.expect("starts");
    let ended = lifecycle::run(app, |addresses| {
        let public = addresses.public.expect("takes deliveries").socket;
        tokio::spawn(async move {
            let mut connection = Connection::open(public).await.expect("connects");
            let answer = connection.send(&Request::post("/hooks/shop", order("evt_1"))).await;
            answer.expect("an answer").expect(503, "unavailable");
            println!("the sender was told 503");
        });
    })
    .await;
    println!("ended with: {}", ended.expect_err("a crash"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_gone_ends_the_process() {
    // This test once more, as the process that crashes.
    if let Ok(directory) = std::env::var(DIRECTORY) {
        return run_until_it_crashes(&directory).await;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--nocapture", "lifecycle::a_writer_that_is_gone_ends_the_process"])
        .env(DIRECTORY, directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can be run");
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().expect("a child can be waited for").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("a child can be killed");
            panic!("it goes on without a writer");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let output = child.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the sender was told 503"), "{said}");
    assert!(said.contains(&format!("ended with: {CRASHED}")), "{said}");
}
