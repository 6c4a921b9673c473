//! The real program as a process: started, killed, started again, and judged at the end.
//!
//! Whatever a test claims, its `TestApp` also claims when it is dropped: the program stops in
//! order and in time, it never panicked, it logged neither a secret nor a body, and no event took
//! effect twice.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::database::{Backend, TestDatabase, blocking, unique};
use super::http::{self, Answer, Request};

/// The program that is tested.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_hooklatch");

/// Stands in every body the tests make, and in no log.
pub(crate) const BODY_MARKER: &str = "never-log-this-body";
/// The secret of every signed source of the tests.
pub(crate) const SIGNING_SECRET: &str = "never-log-this-secret";
pub(crate) const ADMIN_TOKEN: &str = "never-log-this-token";

/// A busy machine takes its time to open the connections of many programs at once.
const MIGRATES_PATIENTLY: (&str, &str) = ("HOOKLATCH__DATABASE__ACQUIRE_TIMEOUT", "30s");

const STARTS_WITHIN: Duration = Duration::from_secs(30);
const STOPS_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// A source without a signature whose every event adds a row to `effects`.
pub(crate) const SHOP: &str = r#"
[[source]]
name = "shop"
verify = { scheme = "none" }
event_id = "body:/id"
event_type = "body:/type"
data = "/data"
[[source.handler]]
sql = "INSERT INTO effects (source, event_id, amount) SELECT source, id, CAST(data ->> 'amount' AS bigint) FROM event"
"#;

/// What a test wants of the program it starts.
#[derive(Debug)]
pub(crate) struct Setup {
    backend: Backend,
    settings: Vec<(String, String)>,
    sources: String,
    command: Vec<&'static str>,
    effects_may_repeat: bool,
}

impl Setup {
    /// The source `shop` and the defaults.
    pub(crate) fn new(backend: Backend) -> Self {
        Self {
            backend,
            settings: Vec::new(),
            sources: SHOP.into(),
            command: vec!["serve"],
            effects_may_repeat: false,
        }
    }

    /// A setting outside the sources: `("http.max_body_bytes", "1000")`.
    pub(crate) fn set(mut self, key: &str, toml: &str) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.into(), toml.into()));
        self
    }

    /// These sources in place of `shop`.
    pub(crate) fn sources(mut self, toml: &str) -> Self {
        self.sources = toml.into();
        self
    }

    /// One source more.
    pub(crate) fn and_source(mut self, toml: &str) -> Self {
        self.sources.push_str(toml);
        self
    }

    /// This command in place of `serve`.
    pub(crate) fn command(mut self, command: &[&'static str]) -> Self {
        self.command = command.to_vec();
        self
    }

    /// For tests in which an event may rightly take effect again.
    pub(crate) fn effects_may_repeat(mut self) -> Self {
        self.effects_may_repeat = true;
        self
    }

    /// On a database of its own.
    pub(crate) async fn start(self) -> TestApp {
        let database = TestDatabase::new(self.backend).await;
        self.start_on(Arc::new(database)).await
    }

    pub(crate) async fn start_on(self, database: Arc<TestDatabase>) -> TestApp {
        let url = database.url.clone();
        self.start_through(database, &url).await
    }

    /// Reaches the database by another URL than the test does (a connection pooler's).
    pub(crate) async fn start_through(self, database: Arc<TestDatabase>, url: &str) -> TestApp {
        let config = self.config(url);
        let app = TestApp::prepare(database, config, self.command, self.effects_may_repeat);
        let migrated = app.run_with("migrate", &[MIGRATES_PATIENTLY]);
        assert!(migrated.status.success(), "migrate failed: {}", said(&migrated));
        app.started()
    }

    fn config(&self, url: &str) -> String {
        let mut toml = String::new();
        let mut line = |key: &str, value: &str| {
            if !self.settings.iter().any(|(k, _)| k == key) {
                writeln!(toml, "{key} = {value}").expect("a String takes text");
            }
        };
        line("http.listen", "\"127.0.0.1:0\"");
        line("admin.listen", "\"127.0.0.1:0\"");
        line("admin.token", &format!("\"{ADMIN_TOKEN}\""));
        line("database.url", &format!("\"{url}\""));
        for (key, value) in &self.settings {
            writeln!(toml, "{key} = {value}").expect("a String takes text");
        }
        toml + &self.sources
    }
}

/// One process of the program, with its configuration and its database.
#[derive(Debug)]
pub(crate) struct TestApp {
    pub(crate) database: Arc<TestDatabase>,
    config: String,
    command: Vec<&'static str>,
    config_file: PathBuf,
    log_file: PathBuf,
    process: Option<Process>,
    effects_may_repeat: bool,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// `None`: it takes no deliveries.
    public: Option<SocketAddr>,
    admin: SocketAddr,
}

impl TestApp {
    fn prepare(
        database: Arc<TestDatabase>,
        config: String,
        command: Vec<&'static str>,
        effects_may_repeat: bool,
    ) -> Self {
        let name = unique();
        let directory = database.directory();
        let config_file = directory.join(format!("{name}.toml"));
        std::fs::write(&config_file, &config).expect("the configuration can be written");
        let log_file = directory.join(format!("{name}.log"));
        Self { database, config, command, config_file, log_file, process: None, effects_may_repeat }
    }

    fn started(mut self) -> Self {
        self.start();
        self
    }

    /// Starts the process and waits until it listens.
    pub(crate) fn start(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(&self.log_file).expect("a log file");
        let mut child = self
            .command(&self.command)
            .stdout(Stdio::piped())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("the program can be run");
        let addresses = listening(&mut child, !self.command.contains(&"relay"));
        let Some((public, admin)) = addresses else {
            // Its exit is not awaited for long: it has said why, or it hangs.
            let _gone = child.kill();
            panic!("it does not listen within {STARTS_WITHIN:?}:\n{}", self.log());
        };
        self.process = Some(Process { child, public, admin });
    }

    /// Another process on the same database.
    pub(crate) fn replica(&self) -> Self {
        Self::prepare(
            self.database.clone(),
            self.config.clone(),
            self.command.clone(),
            self.effects_may_repeat,
        )
        .started()
    }

    /// `kill -9`, at once.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.child.kill().expect("a child can be killed");
        process.child.wait().expect("a killed child ends");
    }

    /// Sends `STOP`, `CONT` or another signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process.as_ref().expect("it runs").child, name);
    }

    /// SIGTERM, and the exit code after all was put in order.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("it runs");
        signal(&process.child, "TERM");
        let deadline = Instant::now() + STOPS_WITHIN;
        loop {
            if let Some(status) = process.child.try_wait().expect("a child can be waited for") {
                return status.code();
            }
            if Instant::now() > deadline {
                process.child.kill().expect("a child can be killed");
                process.child.wait().expect("a killed child ends");
                panic!("it did not stop within {STOPS_WITHIN:?}:\n{}", self.log());
            }
            std::thread::sleep(POLL);
        }
    }

    /// The exit code, when the process ends by itself or has been told to, within `patience`.
    pub(crate) async fn ends_within(&mut self, patience: Duration) -> Option<i32> {
        let mut process = self.process.take().expect("it runs");
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = process.child.try_wait().expect("a child can be waited for") {
                return status.code();
            }
            tokio::time::sleep(POLL).await;
        }
        process.child.kill().expect("a child can be killed");
        process.child.wait().expect("a killed child ends");
        panic!("it did not end within {patience:?}:\n{}", self.log());
    }

    /// Changes the configuration file, under the running process.
    pub(crate) fn edit_config(&self, edit: impl FnOnce(&str) -> String) {
        let text = std::fs::read_to_string(&self.config_file).expect("the configuration is there");
        std::fs::write(&self.config_file, edit(&text)).expect("the configuration can be written");
    }

    /// Waits until the log says this `times` times.
    pub(crate) async fn logs(&self, text: &str, times: usize) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while self.log().matches(text).count() < times {
            assert!(
                Instant::now() < deadline,
                "the log never says {text:?} {times} time(s):\n{}",
                self.log()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Runs a command of the program with this configuration, to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().expect("the program can be run")
    }

    /// The same with variables in its environment.
    pub(crate) fn run_with(&self, command: &str, environment: &[(&str, &str)]) -> Output {
        let mut command = self.command(&[command]);
        command.envs(environment.iter().copied()).stdin(Stdio::null());
        command.output().expect("the program can be run")
    }

    /// The same, to be started by whoever asks.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--config").arg(&self.config_file);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // What the process leaves behind when it is told nothing stays with the test.
        command.current_dir(self.database.directory());
        command
    }

    pub(crate) fn public(&self) -> SocketAddr {
        self.process.as_ref().expect("it runs").public.expect("it takes deliveries")
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.process.as_ref().expect("it runs").admin
    }

    /// Memory in use, in bytes; Linux only.
    pub(crate) fn resident_bytes(&self) -> u64 {
        const KIB: u64 = 1024;
        let pid = self.process.as_ref().expect("it runs").child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("procfs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number") * KIB
    }

    /// What the process has logged so far, over all its starts.
    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log_file)
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Delivers `body` to a source.
    pub(crate) async fn deliver(&self, source: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.send(&Request::post(&format!("/hooks/{source}"), body)).await
    }

    /// Sends a request that must be answered.
    pub(crate) async fn send(&self, request: &Request) -> Answer {
        match http::send(self.public(), request).await {
            Ok(answer) => answer,
            Err(e) => panic!("{} {}: no answer: {e}", request.method, request.target),
        }
    }

    /// Sends a request to the admin listener, with the token.
    pub(crate) async fn admin_get(&self, target: &str) -> Answer {
        let request =
            Request::new("GET", target).header("authorization", format!("Bearer {ADMIN_TOKEN}").as_bytes());
        http::send(self.admin(), &request).await.expect("the admin listener answers")
    }

    fn judge(&mut self) {
        if self.process.is_some() {
            let code = self.stop();
            assert_eq!(code, Some(0), "SIGTERM must end in exit code 0:\n{}", self.log());
        }
        let log = self.log();
        assert!(!log.contains("panicked at"), "the program panicked:\n{log}");
        for hidden in [BODY_MARKER, SIGNING_SECRET, ADMIN_TOKEN] {
            assert!(!log.contains(hidden), "the log shows {hidden}:\n{log}");
        }
        if !self.effects_may_repeat {
            let database = self.database.clone();
            let doubled = blocking(async move { database.doubled_effects().await });
            assert!(doubled.is_empty(), "took effect more than once: {doubled:?}");
        }
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(process) = &mut self.process {
                let _gone = process.child.kill();
                let _reaped = process.child.wait();
            }
            eprintln!("--- log of the program\n{}", self.log());
        } else {
            self.judge();
        }
    }
}

/// The addresses that the process prints once it listens.
fn listening(child: &mut Child, takes_deliveries: bool) -> Option<(Option<SocketAddr>, SocketAddr)> {
    let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let (line, lines) = mpsc::channel();
    // Reads to the end: a full pipe would stop the process.
    std::thread::spawn(move || {
        for text in stdout.lines().map_while(Result::ok) {
            // The test may be over: then nobody listens.
            let _unheard = line.send(text);
        }
    });
    let deadline = Instant::now() + STARTS_WITHIN;
    let (mut public, mut admin) = (None, None);
    while (takes_deliveries && public.is_none()) || admin.is_none() {
        let text = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        if let Some((what, address)) = text.split_once("://") {
            let address = address.trim().trim_end_matches('/').parse().ok();
            match what.split(' ').next().unwrap_or_default() {
                "public" => public = address,
                "admin" => admin = address,
                _ => {}
            }
        }
    }
    admin.map(|admin| (public, admin))
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} failed");
}

/// Everything a finished command said.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// An event of the source `shop`.
pub(crate) fn order(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"order_created","data":{{"amount":1,"note":"{BODY_MARKER}"}}}}"#)
}

#[expect(clippy::disallowed_methods, reason = "a sender signs with the time on its own clock")]
pub(crate) fn unix_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.expect("the clock is past 1970").as_secs()).expect("this century")
}
