//! A receiver that is not ours: takes POSTs over real connections, remembers them byte for byte, and
//! answers as the test says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) target: String,
    /// Lower-case names.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) at: Instant,
    pub(super) unix: i64,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// The message's id.
    pub(super) fn id(&self) -> &str {
        self.header("idempotency-key")
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: u16,
    headers: &'static str,
    after: Duration,
    /// Who says when it may go.
    told: Option<Arc<Notify>>,
}

impl Reply {
    pub(super) fn status(status: u16) -> Self {
        Self { status, headers: "", after: Duration::ZERO, told: None }
    }

    /// Complete lines, each with its line end.
    pub(super) fn with(self, headers: &'static str) -> Self {
        Self { headers, ..self }
    }

    pub(super) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// Not before the test says so: at most one reply for each [`Notify::notify_one`].
    pub(super) fn once_told(self, told: Arc<Notify>) -> Self {
        Self { told: Some(told), ..self }
    }

    /// Taken, and never answered.
    pub(super) fn never() -> Self {
        Self::status(200).once_told(Arc::default())
    }
}

type Answering = dyn Fn(&Received) -> Reply + Send + Sync;

pub(super) struct Sink {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    serving: JoinHandle<()>,
}

impl Sink {
    /// Answers every request with 200.
    pub(super) async fn start() -> Self {
        Self::answering(|_| Reply::status(200)).await
    }

    pub(super) async fn answering(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let received = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Answering> = Arc::new(answer);
        let seen = received.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), answer.clone()));
            }
        });
        Self { address, received, serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/in?from=test", self.address)
    }

    /// What came so far, in order of arrival.
    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panics while it holds this").clone()
    }

    /// Bodies so far, in order of arrival.
    pub(super) fn texts(&self) -> Vec<String> {
        self.received().iter().map(Received::text).collect()
    }

    /// Waits until so many requests have come.
    pub(super) async fn wait_for(&self, requests: usize) -> Vec<Received> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let received = self.received();
            if received.len() >= requests {
                return received;
            }
            assert!(Instant::now() < deadline, "{} of {requests} requests came", received.len());
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, received: Arc<Mutex<Vec<Received>>>, answer: Arc<Answering>) {
    let mut rest = Vec::new();
    while let Some(request) = read(&mut stream, &mut rest).await {
        let reply = answer(&request);
        received.lock().expect("no test panics while it holds this").push(request);
        tokio::time::sleep(reply.after).await;
        if let Some(told) = &reply.told {
            told.notified().await;
        }
        let text =
            format!("HTTP/1.1 {} Told\r\ncontent-length: 4\r\n{}\r\nseen", reply.status, reply.headers);
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Option<Received> {
    let head = loop {
        if let Some(at) = rest.windows(4).position(|part| part == b"\r\n\r\n") {
            break rest.drain(..at + 4).collect::<Vec<u8>>();
        }
        if stream.read_buf(rest).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(head).expect("ASCII");
    let mut lines = head.trim_end().split("\r\n");
    let target = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let length: usize = length.parse().expect("a number");
    while rest.len() < length {
        if stream.read_buf(rest).await.ok()? == 0 {
            return None;
        }
    }
    let body = rest.drain(..length).collect();
    Some(Received { target, headers, body, at: Instant::now(), unix: crate::support::app::unix_now() })
}
