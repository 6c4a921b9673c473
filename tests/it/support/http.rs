//! An HTTP/1.1 client that sends exactly the bytes it is told to and shows exactly the bytes it
//! got. Knows nothing of hooklatch but the names of its headers.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any answer may take, shorter than a person's patience.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A request, built up and then sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    /// In order. `host` and `content-length` are added unless they are here.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut request = Self::new("POST", target).header("content-type", "application/json");
        request.body = body.into();
        request
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// Request line and headers, with the blank line.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        if !self.has("host") {
            head.extend_from_slice(b"host: localhost\r\n");
        }
        if !self.has("content-length") && !self.has("transfer-encoding") {
            head.extend_from_slice(format!("content-length: {}\r\n", self.body.len()).as_bytes());
        }
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Lower-case names, in order of arrival.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// `Hooklatch-Outcome`, or nothing.
    pub(crate) fn outcome(&self) -> &str {
        self.header("hooklatch-outcome").unwrap_or("")
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// `Idempotent-Replayed: true`
    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    /// The id at the end of a problem's `type`.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status, "{self:?}");
        assert!(json["title"].as_str().is_some_and(|t| !t.is_empty()), "{self:?}");
        json["type"].as_str().and_then(|t| t.rsplit(':').next()).unwrap_or("").to_owned()
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16, outcome: &str) -> &Self {
        assert_eq!((self.status, self.outcome()), (status, outcome), "{}: {:?}", self.text(), self.headers);
        self
    }

    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, problem: &str) -> &Self {
        assert_eq!(self.status, status, "{}: {:?}", self.text(), self.headers);
        assert_eq!(self.problem(), problem);
        self
    }

    /// Refused by the sender's fault: any 4xx.
    #[track_caller]
    pub(crate) fn expect_refusal(&self) -> &Self {
        assert!((400..500).contains(&self.status), "{}: {}", self.status, self.text());
        self
    }
}

/// A connection that is kept open between requests.
#[derive(Debug)]
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    /// Bytes read beyond the last answer.
    rest: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = timeout(CONNECT_WITHIN, TcpStream::connect(address))
            .await
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// Closes with RST, the way a client does that crashes.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("a connected socket takes SO_LINGER");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, rest: Vec::new() }
    }

    pub(crate) async fn send(&mut self, request: &Request) -> std::io::Result<Answer> {
        self.write(&request.bytes()).await?;
        self.answer().await
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next answer; an interim `100 Continue` counts as one.
    pub(crate) async fn answer(&mut self) -> std::io::Result<Answer> {
        timeout(ANSWER_WITHIN, self.read_answer())
            .await
            .map_err(|_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer"))?
    }

    /// True when the other side closes, within `patience`, without sending more.
    pub(crate) async fn is_closed_within(&mut self, patience: Duration) -> bool {
        let mut byte = [0; 1];
        matches!(timeout(patience, self.stream.read(&mut byte)).await, Ok(Ok(0) | Err(_)))
    }

    async fn read_answer(&mut self) -> std::io::Result<Answer> {
        let head_end = loop {
            if let Some(at) = find(&self.rest, b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head: Vec<u8> = self.rest.drain(..head_end).collect();
        let (status, headers) = parse_head(&head)?;
        let value = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let body = if status / 100 == 1 || status == 204 || status == 304 {
            Vec::new()
        } else if value("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            self.read_chunks().await?
        } else {
            let length: usize = value("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
            self.take(length).await?
        };
        Ok(Answer { status, headers, body })
    }

    async fn read_chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line().await?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16)
                .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))?;
            body.extend(self.take(size).await?);
            self.read_line().await?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn read_line(&mut self) -> std::io::Result<String> {
        loop {
            if let Some(at) = find(&self.rest, b"\r\n") {
                let line: Vec<u8> = self.rest.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            self.read_more().await?;
        }
    }

    async fn take(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        while self.rest.len() < length {
            self.read_more().await?;
        }
        Ok(self.rest.drain(..length).collect())
    }

    async fn read_more(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.rest.extend_from_slice(&buffer[..n]);
                Ok(())
            }
        }
    }
}

/// Sends one request on a connection of its own.
pub(crate) async fn send(address: SocketAddr, request: &Request) -> std::io::Result<Answer> {
    Connection::open(address).await?.send(request).await
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn parse_head(head: &[u8]) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidData, text.to_string()))?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok((status, headers))
}
