//! `[[destination]]`: where messages of the outbox go, and how they are treated there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::outbox::backoff::Backoff;
use crate::outbox::breaker::BreakerRule;
use crate::outbox::destination::{DestinationSpec, OnPoison, Policy, Transport};
use crate::outbox::http::{HOPS_HEADER, HttpSpec, IDEMPOTENCY_KEY, TRACEPARENT};
use crate::signature::{Verifier, VerifyConfig};

use super::duration::{self, show};
use super::environment::Environment;
use super::report::Report;
use super::secret_ref::SecretRef;
use super::source::check_name;

/// Most destinations of one relay: each has a lane of its own.
const MAX_DESTINATIONS: usize = 256;
const MOST_CONCURRENCY: usize = 1024;
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Refusals that no retry changes: the request itself is at fault.
const PERMANENT: [u16; 4] = [400, 413, 415, 422];
/// These have a meaning of their own, or pass by nature.
const NEVER_PERMANENT: [u16; 3] = [408, 410, 429];
/// Set by the relay for each message.
const RESERVED_HEADERS: [&str; 7] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    IDEMPOTENCY_KEY,
    HOPS_HEADER,
    TRACEPARENT,
];

/// A destination as the configuration writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationSection {
    /// What messages and `forward` handlers call it.
    pub name: String,
    /// `https://…` or `http://…`. One with a token in it is better written `env:NAME`.
    pub url: SecretRef,
    /// What happens to the later messages of an aggregate whose first is given up.
    #[serde(default)]
    pub on_poison: OnPoison,
    /// Messages on their way at a time, from one process.
    #[serde(default = "concurrency")]
    pub concurrency: usize,
    /// Messages a second from one process. Unset: no limit.
    pub rate_per_second: Option<u32>,
    /// How long connecting may take.
    #[serde(default = "connect_timeout", deserialize_with = "duration::deserialize")]
    pub connect_timeout: Duration,
    /// How long an attempt may take, from its start to the end of the answer.
    #[serde(default = "timeout", deserialize_with = "duration::deserialize")]
    pub timeout: Duration,
    /// A message that has failed so often is given up …
    #[serde(default = "max_attempts")]
    pub max_attempts: u32,
    /// … or one that fails when it is this old.
    #[serde(default = "max_age", deserialize_with = "duration::deserialize")]
    pub max_age: Duration,
    /// How long the receiver remembers `Idempotency-Key`s. Unset: not known.
    #[serde(default, deserialize_with = "duration::option::deserialize")]
    pub keys_kept: Option<Duration>,
    /// The longest pause after a first failure; doubled after each further one …
    #[serde(default = "backoff_first", deserialize_with = "duration::deserialize")]
    pub backoff_first: Duration,
    /// … up to this.
    #[serde(default = "backoff_longest", deserialize_with = "duration::deserialize")]
    pub backoff_longest: Duration,
    /// Failures in a row after which the destination is left alone for a while …
    #[serde(default = "breaker_failures")]
    pub breaker_failures: u32,
    /// … this long at first; doubled while it goes on failing, up to `backoff_longest`.
    #[serde(default = "breaker_pause", deserialize_with = "duration::deserialize")]
    pub breaker_pause: Duration,
    /// Statuses that say a message will never be taken.
    #[serde(default = "permanent_statuses")]
    pub permanent_statuses: Vec<u16>,
    /// Sent with every message. Values are secrets: `env:NAME`, `file:PATH`, or the text itself.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretRef>,
    /// How requests are signed, in the words of a source's `verify`. Unset: they are not.
    pub sign: Option<VerifyConfig>,
}

fn concurrency() -> usize {
    16
}

fn connect_timeout() -> Duration {
    Duration::from_secs(5)
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

fn max_attempts() -> u32 {
    100
}

fn max_age() -> Duration {
    Duration::from_secs(3 * 24 * 60 * 60)
}

fn backoff_first() -> Duration {
    Duration::from_secs(1)
}

fn backoff_longest() -> Duration {
    Duration::from_secs(15 * 60)
}

fn breaker_failures() -> u32 {
    10
}

fn breaker_pause() -> Duration {
    Duration::from_secs(5)
}

fn permanent_statuses() -> Vec<u16> {
    PERMANENT.to_vec()
}

impl DestinationSection {
    /// `None` after an error was reported.
    fn resolve(&self, at: &str, environment: &Environment, report: &mut Report) -> Option<DestinationSpec> {
        check_name(&format!("{at}.name"), &self.name, report);
        self.check_numbers(at, report);
        let headers = self.header_map(at, environment, report);
        let signer =
            self.sign.as_ref().map(|sign| self.signer(sign, &format!("{at}.sign"), environment, report));
        let url = self.url(&format!("{at}.url"), environment, report);
        let http = HttpSpec {
            url: url?,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            headers: headers?,
            // Asked for and not to be had: an error was reported.
            signer: match signer {
                Some(signer) => Some(signer?),
                None => None,
            },
            permanent_statuses: self.permanent_statuses.clone(),
        };
        Some(DestinationSpec {
            name: self.name.as_str().into(),
            policy: self.policy(),
            transport: Transport::Http(http),
        })
    }

    fn policy(&self) -> Policy {
        Policy {
            concurrency: self.concurrency,
            rate_per_second: self.rate_per_second,
            max_attempts: self.max_attempts,
            max_age: self.max_age,
            backoff: Backoff { first: self.backoff_first, longest: self.backoff_longest },
            breaker: BreakerRule {
                failures: self.breaker_failures,
                pause: self.breaker_pause,
                longest: self.backoff_longest,
            },
            on_poison: self.on_poison,
        }
    }

    fn check_numbers(&self, at: &str, report: &mut Report) {
        if !(1..=MOST_CONCURRENCY).contains(&self.concurrency) {
            report
                .error(&format!("{at}.concurrency"), format!("write a number from 1 to {MOST_CONCURRENCY}"));
        }
        for (key, number) in [
            ("rate_per_second", self.rate_per_second.unwrap_or(1)),
            ("max_attempts", self.max_attempts),
            ("breaker_failures", self.breaker_failures),
        ] {
            if number == 0 {
                report.error(&format!("{at}.{key}"), "write a number from 1 up");
            }
        }
        if self.keys_kept.is_some_and(|kept| kept < self.max_age) {
            report.warn(
                &format!("{at}.keys_kept"),
                format!(
                    "messages are tried for {} (max_age), longer than the receiver remembers that it had one; a late attempt could take effect twice. Shorten max_age, or tell apart by what is in the message",
                    show(self.max_age)
                ),
            );
        }
        for (key, time) in [("connect_timeout", self.connect_timeout), ("timeout", self.timeout)] {
            if time.is_zero() || time > LONGEST_TIMEOUT {
                report.error(
                    &format!("{at}.{key}"),
                    format!("write a time longer than nothing, up to {}", show(LONGEST_TIMEOUT)),
                );
            }
        }
        for (key, time) in [
            ("max_age", self.max_age),
            ("backoff_first", self.backoff_first),
            ("breaker_pause", self.breaker_pause),
        ] {
            if time.is_zero() {
                report.error(&format!("{at}.{key}"), "write a time longer than nothing");
            }
        }
        for (key, time) in [("backoff_first", self.backoff_first), ("breaker_pause", self.breaker_pause)] {
            if time > self.backoff_longest {
                report.error(
                    &format!("{at}.{key}"),
                    format!(
                        "{} is longer than backoff_longest ({}); shorten it",
                        show(time),
                        show(self.backoff_longest)
                    ),
                );
            }
        }
        for status in &self.permanent_statuses {
            if !(400..500).contains(status) || NEVER_PERMANENT.contains(status) {
                report.error(
                    &format!("{at}.permanent_statuses"),
                    format!("{status} cannot be permanent; write statuses from 400 to 499, and neither 408, 410 nor 429"),
                );
            }
        }
    }

    fn url(&self, key: &str, environment: &Environment, report: &mut Report) -> Option<Url> {
        // A URL is no secret unless it carries one.
        let text = self.url.resolve(environment).map_err(|message| report.error(key, message)).ok()?;
        let Ok(url) = Url::parse(text.expose()) else {
            report.error(key, "this is not a URL; write https://HOST/PATH");
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") {
            report.error(
                key,
                format!("{:?} is no scheme this program delivers to; write https://HOST/PATH", url.scheme()),
            );
            return None;
        }
        if self.url.is_literal() && url.password().is_some() {
            report.warn(
                key,
                "the password stands in the configuration; write the URL as env:NAME or file:PATH",
            );
        }
        Some(url)
    }

    fn header_map(&self, at: &str, environment: &Environment, report: &mut Report) -> Option<HeaderMap> {
        let mut headers = Some(HeaderMap::new());
        for (name, value) in &self.headers {
            let key = format!("{at}.headers.{name}");
            let header: Result<HeaderName, _> = name.to_ascii_lowercase().parse();
            let Ok(header) = header else {
                report.error(&key, "this is not the name of a header");
                headers = None;
                continue;
            };
            if RESERVED_HEADERS.contains(&header.as_str()) {
                report.error(&key, "the relay sets this header itself; remove it");
                headers = None;
                continue;
            }
            let value = match value.resolve(environment) {
                Ok(value) => value,
                Err(message) => {
                    report.error(&key, message);
                    headers = None;
                    continue;
                }
            };
            let Ok(mut value) = HeaderValue::from_str(value.expose()) else {
                report.error(&key, "the value has characters that cannot stand in a header");
                headers = None;
                continue;
            };
            value.set_sensitive(true);
            if let Some(headers) = &mut headers {
                headers.insert(header, value);
            }
        }
        headers
    }

    fn signer(
        &self,
        sign: &VerifyConfig,
        key: &str,
        environment: &Environment,
        report: &mut Report,
    ) -> Option<Verifier> {
        let mut is_complete = true;
        let signer = Verifier::configured(sign, &mut |reference| {
            let secret = report.secret(&format!("{key}.secrets"), reference, environment);
            is_complete &= secret.is_some();
            secret
        });
        if !is_complete {
            return None;
        }
        let signer = signer.map_err(|error| report.error(key, error.to_string())).ok()?;
        // A scheme may want what only its own sender knows: better told now than with each message.
        let id = uuid::Uuid::nil().to_string();
        match signer.sign("POST", "/", b"{}", &id, DateTime::UNIX_EPOCH) {
            Ok(_) => Some(signer),
            Err(error) => {
                report.error(key, format!("{error}; use another scheme, such as standard-webhooks"));
                None
            }
        }
    }
}

/// Checks the destinations one by one and among themselves. One that is missing from the result has
/// an error in the report.
pub(super) fn resolve_all(
    sections: &[DestinationSection],
    environment: &Environment,
    report: &mut Report,
) -> Vec<DestinationSpec> {
    if sections.len() > MAX_DESTINATIONS {
        report.error(
            "destination",
            format!("{} destinations are more than {MAX_DESTINATIONS}", sections.len()),
        );
    }
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, section) in sections.iter().enumerate() {
        match first.get(&*section.name) {
            Some(earlier) => report.error(
                &format!("destination[{number}].name"),
                format!(
                    "destination[{earlier}] is called {:?} too; give one of them another name",
                    section.name
                ),
            ),
            None => {
                first.insert(&section.name, number);
            }
        }
    }
    sections
        .iter()
        .enumerate()
        .filter_map(|(number, section)| {
            section.resolve(&format!("destination[{number}]"), environment, report)
        })
        .collect()
}

/// The destination that a `forward` names; an error when there is none.
pub(super) fn named(name: &str, known: &[String], key: &str, report: &mut Report) -> Option<Arc<str>> {
    if known.iter().any(|known| known == name) {
        return Some(name.into());
    }
    let way_out = match known {
        [] => "there is none; add a [[destination]]".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    report.error(key, format!("there is no destination {name:?}; {way_out}"));
    None
}
