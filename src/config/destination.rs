//! `[[destination]]`: where messages of the outbox go, and how they are treated there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::outbox::backoff::Backoff;
use crate::outbox::breaker::BreakerRule;
use crate::outbox::destination::{DestinationSpec, OnPoison, Policy, Unroutable};
use crate::signature::VerifyConfig;

use super::duration::{self, show};
use super::environment::Environment;
use super::peer_tls::PeerTlsSection;
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

/// A destination as the configuration writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationSection {
    /// What messages and `forward` handlers call it.
    pub name: String,
    /// `https://…` or `http://…`; or a broker's: `amqp://…`, `amqps://…`, `nats://…`, `tls://…`,
    /// `kafka://…`. One with a token or password in it is better written `env:NAME`.
    pub url: SecretRef,
    /// Whose certificates are believed there, and which is shown. Unset: the machine's authorities judge.
    pub tls: Option<PeerTlsSection>,
    /// RabbitMQ: the exchange. Unset: the default one, whose routing keys are names of queues.
    pub exchange: Option<String>,
    /// RabbitMQ: the routing key, with `{event_type}` and `{aggregate_id}` where those are wanted. Unset:
    /// the event type.
    pub routing_key: Option<String>,
    /// RabbitMQ: whether a message that no queue takes is tried again or given up at once.
    pub unroutable: Option<Unroutable>,
    /// NATS: the subject, with places as in a routing key.
    pub subject: Option<String>,
    /// Kafka: the topic, with places as in a routing key.
    pub topic: Option<String>,
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
        let transport = self.transport(at, environment, report)?;
        Some(DestinationSpec { name: self.name.as_str().into(), policy: self.policy(), transport })
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
