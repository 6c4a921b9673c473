//! `[http]`: the public listener and its limits.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

use super::report::Report;
use super::tls::TlsSection;
use super::{address, duration};

/// Bodies are kept in memory whole; beyond this, the sender should send a reference.
const LARGEST_BODY_BYTES: usize = 256 * 1024 * 1024;

/// The public listener: `/hooks/{source}`, `/healthz`, `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSection {
    /// Address and port.
    #[serde(with = "address")]
    pub listen: SocketAddr,
    /// The files of the certificate, for a listener that ends TLS itself. Unset: plain HTTP.
    pub tls: Option<TlsSection>,
    /// Larger bodies are refused with 413, chunked ones too.
    pub max_body_bytes: usize,
    /// Most bytes of bodies held at a time, over all connections; beyond, deliveries are answered 503.
    pub max_buffered_bytes: usize,
    /// Open connections at a time; more wait in the kernel's backlog.
    pub max_connections: usize,
    /// How long an idle connection stays open.
    #[serde(with = "duration")]
    pub keep_alive: Duration,
    /// How long the head of a request may take to arrive.
    #[serde(with = "duration")]
    pub head_timeout: Duration,
    /// How long a body may take to arrive.
    #[serde(with = "duration")]
    pub body_timeout: Duration,
    /// Threads that read requests and write answers. 0: one a CPU core.
    pub workers: usize,
    /// How long a stop waits for requests that have begun.
    #[serde(with = "duration")]
    pub shutdown_grace: Duration,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            tls: None,
            max_body_bytes: 1024 * 1024,
            max_buffered_bytes: 64 * 1024 * 1024,
            max_connections: 16_384,
            keep_alive: Duration::from_secs(75),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(15),
            workers: 0,
            shutdown_grace: Duration::from_secs(25),
        }
    }
}

impl HttpSection {
    /// Whether clients are asked for certificates.
    #[must_use]
    pub fn sees_client_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }

    pub(super) fn check(&self, report: &mut Report) {
        if !(1..=LARGEST_BODY_BYTES).contains(&self.max_body_bytes) {
            report.error("http.max_body_bytes", format!("write a number from 1 to {LARGEST_BODY_BYTES}"));
        }
        if self.max_connections == 0 {
            report.error("http.max_connections", "with 0 nobody could connect; write at least 1");
        }
        if self.max_buffered_bytes < self.max_body_bytes {
            report.error(
                "http.max_buffered_bytes",
                format!(
                    "a body of max_body_bytes ({}) would never fit; write at least that",
                    self.max_body_bytes
                ),
            );
        }
        if let Some(tls) = &self.tls {
            tls.check("http.tls", report);
        }
        for (key, time) in [("head_timeout", self.head_timeout), ("body_timeout", self.body_timeout)] {
            if time.is_zero() {
                report.error(&format!("http.{key}"), "nothing arrives in no time; write at least \"1s\"");
            }
        }
    }
}
