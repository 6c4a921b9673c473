//! From a destination's URL to the way there: HTTP, or one of the brokers this program was built with.
//!
//! Keys that belong to another kind of destination are errors: somebody thinks that they do something.

use chrono::DateTime;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::broker::{BrokerKind, BrokerSpec, BrokerUrl};
#[cfg(feature = "amqp")]
use crate::outbox::amqp::AmqpSpec;
use crate::outbox::destination::Transport;
use crate::outbox::http::{HOPS_HEADER, HttpSpec, IDEMPOTENCY_KEY, TRACEPARENT};
#[cfg(feature = "kafka")]
use crate::outbox::kafka::KafkaSpec;
#[cfg(feature = "nats")]
use crate::outbox::nats::NatsSpec;
#[cfg(any(feature = "amqp", feature = "nats", feature = "kafka"))]
use crate::outbox::route::Route;
use crate::signature::{Verifier, VerifyConfig};
use crate::tls::PeerTls;

use super::destination::DestinationSection;
use super::environment::Environment;
use super::peer_tls;
use super::report::Report;

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

/// The longest name of an exchange or a routing key that AMQP allows.
#[cfg(feature = "amqp")]
const MAX_SHORT_BYTES: usize = 255;

impl DestinationSection {
    /// `None` after an error was reported.
    pub(super) fn transport(
        &self,
        at: &str,
        environment: &Environment,
        report: &mut Report,
    ) -> Option<Transport> {
        // All are looked at, so that everything that is wrong is told at once.
        let headers = self.header_map(at, environment, report);
        let signer =
            self.sign.as_ref().map(|sign| self.signer(sign, &format!("{at}.sign"), environment, report));
        let key = format!("{at}.url");
        let url = self.url(&key, environment, report)?;
        let kind = BrokerKind::of_scheme(url.scheme());
        self.refuse_what_belongs_elsewhere(at, kind, report);
        let tls = peer_tls::resolve(self.tls.as_ref(), at, url.scheme(), report).ok()?;
        match (url.scheme(), kind) {
            ("http" | "https", _) => self.http(url, tls, headers, signer),
            (_, Some(kind)) => {
                let url = BrokerUrl::parse(url.as_str()).map_err(|error| report.error(&key, error)).ok()?;
                let broker = BrokerSpec { url, connect_timeout: self.connect_timeout, tls };
                self.broker(at, kind, broker, headers?, report)
            }
            (scheme, None) => {
                report.error(
                    &key,
                    format!(
                        "{scheme:?} is no scheme this program delivers to; write https://HOST/PATH, or amqp, nats or kafka"
                    ),
                );
                None
            }
        }
    }

    /// `signer`: `None` inside when it was asked for and is not to be had; an error was reported.
    fn http(
        &self,
        url: Url,
        tls: Option<PeerTls>,
        headers: Option<HeaderMap>,
        signer: Option<Option<Verifier>>,
    ) -> Option<Transport> {
        let signer = match signer {
            Some(signer) => Some(signer?),
            None => None,
        };
        Some(Transport::Http(HttpSpec {
            url,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            headers: headers?,
            signer,
            permanent_statuses: self.permanent_statuses.clone(),
            tls,
        }))
    }

    #[cfg_attr(
        not(any(feature = "amqp", feature = "nats", feature = "kafka")),
        expect(unused_variables, reason = "no broker is built in")
    )]
    fn broker(
        &self,
        at: &str,
        kind: BrokerKind,
        broker: BrokerSpec,
        headers: HeaderMap,
        report: &mut Report,
    ) -> Option<Transport> {
        match kind {
            #[cfg(feature = "amqp")]
            BrokerKind::Amqp => self.amqp(at, broker, headers, report).map(Transport::Amqp),
            #[cfg(feature = "nats")]
            BrokerKind::Nats => self.nats(at, broker, headers, report).map(Transport::Nats),
            #[cfg(feature = "kafka")]
            BrokerKind::Kafka => self.kafka(at, broker, headers, report).map(Transport::Kafka),
            // Refused with the URL.
            #[cfg(not(all(feature = "amqp", feature = "nats", feature = "kafka")))]
            _ => None,
        }
    }

    #[cfg(feature = "amqp")]
    fn amqp(
        &self,
        at: &str,
        broker: BrokerSpec,
        headers: HeaderMap,
        report: &mut Report,
    ) -> Option<AmqpSpec> {
        let exchange = self.exchange.clone().unwrap_or_default();
        let key = format!("{at}.routing_key");
        let routing_key = match &self.routing_key {
            Some(text) => Route::parse(text).map_err(|error| report.error(&key, error)).ok()?,
            None if exchange.is_empty() => {
                report.error(
                    &key,
                    "the default exchange takes the name of a queue for its routing key; write routing_key = \"QUEUE\", or name an exchange",
                );
                return None;
            }
            None => Route::event_type(),
        };
        if exchange.is_empty() && routing_key.is_empty() {
            report.error(&key, "it is empty, and no queue has that name; write the name of one");
        }
        for (key, text) in [("exchange", &exchange), ("routing_key", &routing_key.to_string())] {
            if text.len() > MAX_SHORT_BYTES {
                report.error(&format!("{at}.{key}"), format!("it is longer than {MAX_SHORT_BYTES} bytes"));
            }
        }
        let unroutable = self.unroutable.unwrap_or_default();
        Some(AmqpSpec { broker, exchange, routing_key, timeout: self.timeout, headers, unroutable })
    }

    #[cfg(feature = "nats")]
    fn nats(
        &self,
        at: &str,
        broker: BrokerSpec,
        headers: HeaderMap,
        report: &mut Report,
    ) -> Option<NatsSpec> {
        let key = format!("{at}.subject");
        let Some(text) = self.subject.as_deref().filter(|text| !text.is_empty()) else {
            report.error(&key, "messages go to a subject; add subject = \"shop.{event_type}\"");
            return None;
        };
        let subject = Route::parse(text).map_err(|error| report.error(&key, error)).ok()?;
        let unroutable = self.unroutable.unwrap_or_default();
        Some(NatsSpec { broker, subject, timeout: self.timeout, headers, unroutable })
    }

    #[cfg(feature = "kafka")]
    fn kafka(
        &self,
        at: &str,
        broker: BrokerSpec,
        headers: HeaderMap,
        report: &mut Report,
    ) -> Option<KafkaSpec> {
        let Some(text) = self.topic.as_deref().filter(|text| !text.is_empty()) else {
            report.error(&format!("{at}.topic"), "messages go to a topic; add topic = \"NAME\"");
            return None;
        };
        let topic = Route::parse(text).map_err(|error| report.error(&format!("{at}.topic"), error)).ok()?;
        let exposed = broker.url.expose();
        if !exposed.username().is_empty() || exposed.password().is_some() {
            report.error(
                &format!("{at}.url"),
                "Kafka is spoken without SASL and TLS: remove the user, and reach the broker by a trusted way",
            );
        }
        Some(KafkaSpec { broker, topic, timeout: self.timeout, headers })
    }

    fn refuse_what_belongs_elsewhere(&self, at: &str, kind: Option<BrokerKind>, report: &mut Report) {
        let belongs = [
            ("exchange", self.exchange.is_some(), Some(BrokerKind::Amqp), "amqp://"),
            ("routing_key", self.routing_key.is_some(), Some(BrokerKind::Amqp), "amqp://"),
            ("subject", self.subject.is_some(), Some(BrokerKind::Nats), "nats://"),
            ("topic", self.topic.is_some(), Some(BrokerKind::Kafka), "kafka://"),
            ("sign", self.sign.is_some(), None, "https://"),
        ];
        if self.unroutable.is_some() && !matches!(kind, Some(BrokerKind::Amqp | BrokerKind::Nats)) {
            report.error(
                &format!("{at}.unroutable"),
                "this belongs to destinations with an amqp:// or nats:// URL; remove it here",
            );
        }
        for (key, is_there, owner, scheme) in belongs {
            if is_there && kind != owner {
                report.error(
                    &format!("{at}.{key}"),
                    format!("this belongs to destinations with a {scheme} URL; remove it here"),
                );
            }
        }
    }

    /// A URL is no secret unless it carries one.
    fn url(&self, key: &str, environment: &Environment, report: &mut Report) -> Option<Url> {
        let text = self.url.resolve(environment).map_err(|message| report.error(key, message)).ok()?;
        let Ok(url) = Url::parse(text.expose()) else {
            report.error(key, "this is not a URL; write https://HOST/PATH");
            return None;
        };
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
