//! The keys of a source whose deliveries come from a broker's queue.

use std::time::Duration;

use serde::Deserialize;

use crate::broker::{BrokerKind, BrokerSpec, BrokerUrl};
use crate::consumer::QueueSpec;
use crate::envelope::EnvelopePreset;

use super::duration::show;
use super::environment::Environment;
use super::peer_tls;
use super::report::Report;
use super::source::SourceSection;

/// Messages on their way at a time: what one transaction holds.
const PREFETCH: u16 = 256;
/// With the pauses between them, about five minutes.
const MAX_ATTEMPTS: u32 = 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST_CONNECT: Duration = Duration::from_secs(60);
const MAX_QUEUE_BYTES: usize = 255;

/// Where the parts of an event are in a message, unless the configuration says otherwise.
pub(super) const QUEUED: EnvelopePreset = EnvelopePreset {
    event_id: &["header:message-id | body:/id"],
    event_type: &["header:message-type | body:/type"],
    ..EnvelopePreset::USUAL
};

/// Where the deliveries of a source come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// They are posted to `/hooks/{name}`.
    #[default]
    Http,
    /// They are taken from a RabbitMQ queue.
    Amqp,
    /// They are taken from a NATS `JetStream` consumer.
    Nats,
}

impl SourceKind {
    fn broker(self) -> Option<BrokerKind> {
        match self {
            Self::Http => None,
            Self::Amqp => Some(BrokerKind::Amqp),
            Self::Nats => Some(BrokerKind::Nats),
        }
    }
}

impl SourceSection {
    /// `None` after an error was reported.
    pub(super) fn queue(
        &self,
        at: &str,
        environment: &Environment,
        report: &mut Report,
    ) -> Option<QueueSpec> {
        let url = self.broker_url(&format!("{at}.url"), environment, report);
        let queue = match self.queue.as_deref() {
            Some(name) if !name.is_empty() && name.len() <= MAX_QUEUE_BYTES => Some(name.to_owned()),
            Some(_) => {
                report.error(
                    &format!("{at}.queue"),
                    format!("a queue's name has 1 to {MAX_QUEUE_BYTES} bytes"),
                );
                None
            }
            None => {
                report.error(at, "messages come from a queue; add queue = \"NAME\"");
                None
            }
        };
        match (self.kind, &self.stream) {
            (SourceKind::Nats, None) => {
                report.error(at, "messages come from a stream; add stream = \"NAME\"");
            }
            (SourceKind::Amqp, Some(_)) => report
                .error(&format!("{at}.stream"), "this belongs to sources of kind \"nats\"; remove it here"),
            _ => {}
        }
        for (key, number) in [("prefetch", self.prefetch.map(u32::from)), ("max_attempts", self.max_attempts)]
        {
            if number == Some(0) {
                report.error(&format!("{at}.{key}"), "write a number from 1 up");
            }
        }
        let connect_timeout = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        if connect_timeout.is_zero() || connect_timeout > LONGEST_CONNECT {
            report.error(
                &format!("{at}.connect_timeout"),
                format!("write a time longer than nothing, up to {}", show(LONGEST_CONNECT)),
            );
        }
        let url = url?;
        let tls = peer_tls::resolve(self.tls.as_ref(), at, url.scheme(), report).ok()?;
        Some(QueueSpec {
            source: self.name.as_str().into(),
            broker: BrokerSpec { url, connect_timeout, tls },
            queue: queue?,
            stream: self.stream.clone(),
            prefetch: self.prefetch.unwrap_or(PREFETCH),
            max_attempts: self.max_attempts.unwrap_or(MAX_ATTEMPTS),
        })
    }

    fn broker_url(&self, key: &str, environment: &Environment, report: &mut Report) -> Option<BrokerUrl> {
        let Some(reference) = &self.url else {
            report.error(key, "messages come from a broker; add url = \"amqp://USER:PASSWORD@HOST/VHOST\"");
            return None;
        };
        let text = reference.resolve(environment).map_err(|message| report.error(key, message)).ok()?;
        let url = BrokerUrl::parse(text.expose()).map_err(|error| report.error(key, error)).ok()?;
        if Some(url.kind()) != self.kind.broker() {
            report.error(
                key,
                format!("{} is no URL of the source's kind; let both name one broker", url.place()),
            );
            return None;
        }
        if reference.is_literal() && url.has_password() {
            report.warn(
                key,
                "the password stands in the configuration; write the URL as env:NAME or file:PATH",
            );
        }
        Some(url)
    }

    /// Somebody thinks that they do something.
    pub(super) fn refuse_keys_of_queues(&self, at: &str, report: &mut Report) {
        for (key, is_there) in [
            ("url", self.url.is_some()),
            ("queue", self.queue.is_some()),
            ("stream", self.stream.is_some()),
            ("prefetch", self.prefetch.is_some()),
            ("max_attempts", self.max_attempts.is_some()),
            ("connect_timeout", self.connect_timeout.is_some()),
            ("tls", self.tls.is_some()),
        ] {
            if is_there {
                report.error(
                    &format!("{at}.{key}"),
                    "this belongs to sources that are queues; add kind = \"amqp\", or remove it",
                );
            }
        }
    }
}
