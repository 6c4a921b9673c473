//! HTTP destinations: one POST an attempt.
//!
//! The body goes out byte for byte as it was written, under the same `Idempotency-Key` on every
//! attempt, signed anew each time. Redirects are failures and never followed. Every attempt ends within the
//! total timeout; of the answer only the first bytes are kept.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};

use super::destination::{Answer, Destination, Meaning};
use super::probe;
use crate::signature::Verifier;
use crate::store::outbox::{Message, UNREADABLE_HEADERS};
use crate::tls::{PeerTls, certificate_problem};

/// How many hooklatches a message has come through, this one included.
pub const HOPS_HEADER: &str = "hooklatch-hops";
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
pub const TRACEPARENT: &str = "traceparent";

/// Bytes of an answer that are kept for a person to read.
const KEPT_BYTES: usize = 1024;
/// Bytes of an answer that are read, so that the connection can be used again.
const READ_BYTES: u64 = 64 * 1024;
/// Longer requests to wait are not honoured: they would outlast what a person expects.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an idle connection is kept: shorter than most servers do, so that they do not close it
/// under a message.
const IDLE: Duration = Duration::from_secs(20);

/// Headers that a message cannot set: they frame the request or are the relay's own word.
const OWN_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "te",
    "upgrade",
    IDEMPOTENCY_KEY,
    HOPS_HEADER,
];

/// An HTTP endpoint as it is configured.
#[derive(Clone)]
pub struct HttpSpec {
    pub url: Url,
    pub connect_timeout: Duration,
    /// From the start of an attempt to the end of the answer.
    pub timeout: Duration,
    /// Sent with every message; values may be secrets.
    pub headers: HeaderMap,
    /// Signs with the first secret.
    pub signer: Option<Verifier>,
    /// Statuses that say a message will never be taken.
    pub permanent_statuses: Vec<u16>,
    /// Whose certificates are believed, and which is shown. `None`: as the machine's settings say.
    pub tls: Option<PeerTls>,
}

impl fmt::Debug for HttpSpec {
    /// The URL and headers may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSpec").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// An open HTTP endpoint.
#[derive(Debug)]
pub struct HttpDestination {
    client: Client,
    spec: HttpSpec,
    /// Path and query, which some schemes sign.
    target: String,
}

impl HttpDestination {
    pub(super) fn new(spec: &HttpSpec, concurrency: usize) -> Result<Self, reqwest::Error> {
        // Fails only when there is one already, which serves as well.
        let _present = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .connect_timeout(spec.connect_timeout)
            .timeout(spec.timeout)
            .pool_max_idle_per_host(concurrency)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("hooklatch/", env!("CARGO_PKG_VERSION")));
        if let Some(tls) = &spec.tls {
            client = client.tls_backend_preconfigured((*tls.config()).clone());
        }
        let client = client.build()?;
        let target = match spec.url.query() {
            Some(query) => format!("{}?{query}", spec.url.path()),
            None => spec.url.path().to_owned(),
        };
        Ok(Self { client, spec: spec.clone(), target })
    }

    fn headers(&self, message: &Message, now: DateTime<Utc>) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &message.headers {
            if name == UNREADABLE_HEADERS {
                return Err(format!("its headers are {UNREADABLE_HEADERS}"));
            }
            let lower = name.to_ascii_lowercase();
            if OWN_HEADERS.contains(&lower.as_str()) {
                return Err(format!("the message's header `{name}` is the relay's to set"));
            }
            set(&mut headers, &lower, value)?;
        }
        headers.extend(self.spec.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        set(&mut headers, "content-type", &message.content_type)?;
        let id = message.id.hyphenated().to_string();
        if let Some(traceparent) = &message.traceparent {
            set(&mut headers, TRACEPARENT, traceparent)?;
        }
        set(&mut headers, HOPS_HEADER, &message.hops.saturating_add(1).to_string())?;
        if let Some(signer) = &self.spec.signer {
            let signed = signer.sign("POST", &self.target, &message.payload, &id, now);
            for (name, value) in signed.map_err(|error| format!("it cannot be signed: {error}"))? {
                set(&mut headers, &name, &value)?;
            }
        }
        set(&mut headers, IDEMPOTENCY_KEY, &id)?;
        Ok(headers)
    }
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let unfit = |_| format!("the header `{name}` has a name or value that HTTP does not allow");
    let header: HeaderName = name.parse().map_err(|_| unfit(()))?;
    headers.insert(header, HeaderValue::from_str(value).map_err(|_| unfit(()))?);
    Ok(())
}

#[async_trait]
impl Destination for HttpDestination {
    async fn deliver(&self, message: &Message, now: DateTime<Utc>) -> Answer {
        let headers = match self.headers(message, now) {
            Ok(headers) => headers,
            Err(reason) => return Answer::none(Meaning::Refused, reason),
        };
        let post = self.client.post(self.spec.url.clone()).headers(headers).body(message.payload.clone());
        match post.send().await {
            Ok(response) => self.read(response, now).await,
            Err(error) => Answer::none(Meaning::Failed { retry_after: None }, explain(error)),
        }
    }

    async fn probe(&self) -> Option<Result<String, String>> {
        Some(probe::reach(&self.spec.url, self.spec.tls.as_ref(), self.spec.connect_timeout).await)
    }
}

impl HttpDestination {
    async fn read(&self, mut response: Response, now: DateTime<Utc>) -> Answer {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(reqwest::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| retry_after(text, now));
        let meaning = meaning(status, retry_after, &self.spec.permanent_statuses);
        let mut body = BytesMut::new();
        let mut body_bytes: u64 = 0;
        // What the status says counts, however the rest of the answer arrives.
        while let Ok(Some(chunk)) = response.chunk().await {
            body_bytes += chunk.len() as u64;
            body.extend_from_slice(&chunk[..chunk.len().min(KEPT_BYTES - body.len())]);
            if body_bytes >= READ_BYTES {
                break;
            }
        }
        let error = (meaning != Meaning::Accepted).then(|| describe(status));
        Answer { meaning, status: Some(status), error, body: Bytes::from(body), body_bytes }
    }
}

/// What a status means.
fn meaning(status: u16, retry_after: Option<Duration>, permanent: &[u16]) -> Meaning {
    match status {
        200..=299 => Meaning::Accepted,
        410 => Meaning::Gone,
        429 | 503 => Meaning::Throttled { retry_after },
        status if permanent.contains(&status) => Meaning::Refused,
        _ => Meaning::Failed { retry_after },
    }
}

fn describe(status: u16) -> String {
    match status {
        300..=399 => format!("answered {status}: a redirect, which is not followed"),
        410 => "answered 410: nothing is taken there any more".to_owned(),
        status => format!("answered {status}"),
    }
}

/// Seconds, or a date.
fn retry_after(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let wait = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => (DateTime::parse_from_rfc2822(text.trim()).ok()?.to_utc() - now).to_std().ok()?,
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

/// An error in words, without the URL: it may hold a secret.
fn explain(error: reqwest::Error) -> String {
    let what = if error.is_timeout() && error.is_connect() {
        "could not connect in time"
    } else if error.is_timeout() {
        "did not answer in time"
    } else if error.is_connect() {
        "could not connect"
    } else {
        "the connection failed"
    };
    let error = error.without_url();
    if let Some(problem) = certificate_problem(&error) {
        return format!("{what}: {problem}");
    }
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    format!("{what}: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_becomes_of_message_and_destination() {
        let soon = Some(Duration::from_secs(3));
        for (status, expected) in [
            (200, Meaning::Accepted),
            (204, Meaning::Accepted),
            (301, Meaning::Failed { retry_after: soon }),
            (400, Meaning::Refused),
            (404, Meaning::Failed { retry_after: soon }),
            (410, Meaning::Gone),
            (429, Meaning::Throttled { retry_after: soon }),
            (500, Meaning::Failed { retry_after: soon }),
            (503, Meaning::Throttled { retry_after: soon }),
        ] {
            assert_eq!(meaning(status, soon, &[400, 422]), expected, "{status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_has_an_end() {
        let now = DateTime::from_timestamp(784_111_777 - 60, 0).expect("a time");
        for (text, expected) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:47:37 GMT", None),
            ("99999999999", Some(LONGEST_RETRY_AFTER.as_secs())),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(text, now), expected.map(Duration::from_secs), "{text}");
        }
    }
}
