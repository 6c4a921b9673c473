//! `[[source]]`: a sender, and how its deliveries are verified and read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::consumer::QueueSpec;
use crate::envelope::{DEFAULT_FORM_FIELD, EnvelopeRules, Locator, Locators, OrderRule};
use crate::json_pointer::JsonPointer;
use crate::signature::{Preset, Verifier, VerifyConfig};
use crate::source::{Intake, KeyPolicy, MAX_HANDLERS, ReplayErrors, ReplayGuard, Source};
use crate::store::Dialect;

use super::duration;
use super::environment::Environment;
pub use super::handler::{HandlerSection, SqlText};
use super::peer_tls::PeerTlsSection;
use super::queue::QUEUED;
pub use super::queue::SourceKind;
use super::report::Report;
use super::secret_ref::SecretRef;

/// Longest name of a source or consumer.
const MAX_NAME_BYTES: usize = 100;
/// Most senders of one receiver.
const MAX_SOURCES: usize = 1000;
/// What is said of a source that does not say how it is verified.
pub(super) const NO_VERIFY: &str = "every source says how it is verified; add verify = { scheme = \"standard-webhooks\", secrets = [\"env:NAME\"] }, or { scheme = \"none\" } for a sender that signs nothing";
/// What a success may be answered with.
const SUCCESS_STATUSES: [u16; 4] = [200, 201, 202, 204];

/// A sender as the configuration writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSection {
    /// Names the source and its path, `/hooks/{name}`.
    pub name: String,
    /// The dedup scope. Two sources may share one. Unset: the name.
    pub consumer: Option<String>,
    /// Where deliveries come from: `http`, or a broker's queue: `amqp`, `nats`.
    #[serde(default)]
    pub kind: SourceKind,
    /// Of a queue: the broker's URL. One with a password is better written `env:NAME`.
    pub url: Option<SecretRef>,
    /// Of a queue: its name, and it must be there. NATS: the durable consumer, made if it is not there …
    pub queue: Option<String>,
    /// … of this stream.
    pub stream: Option<String>,
    /// Of a queue: messages that may be on their way at a time. Unset: 256.
    pub prefetch: Option<u16>,
    /// Of a queue: a message whose events fail so often for now becomes a dead letter. Unset: 20.
    pub max_attempts: Option<u32>,
    /// Of a queue: how long connecting may take. Unset: 5 s.
    #[serde(default, deserialize_with = "duration::option::deserialize")]
    pub connect_timeout: Option<Duration>,
    /// Of a queue: whose certificates are believed there, and which is shown.
    pub tls: Option<PeerTlsSection>,
    /// How deliveries are verified. There is no default: whoever wants none writes it. Not for queues:
    /// their brokers say who may send.
    pub verify: Option<VerifyConfig>,
    /// Where the event id is: `body:/pointer`, `header:NAME`, or a list that is joined by ":".
    /// Unset: `body:/id`; of a queue `header:message-id | body:/id`.
    pub event_id: Option<Locators>,
    /// Where the event type is, in the same way. Unset: `body:/type`; of a queue
    /// `header:message-type | body:/type`.
    pub event_type: Option<Locators>,
    /// Where the time at which the event happened is.
    pub event_time: Option<Locator>,
    /// JSON pointer to what `data` means to handlers. Unset: the whole event.
    pub data: Option<JsonPointer>,
    /// JSON pointer to a list of events; "" is the body itself. Pointers are then relative to the
    /// item.
    pub items: Option<JsonPointer>,
    /// Where an event stands in its entity's history; older events are not applied.
    pub order_by: Option<OrderRule>,
    /// The field that carries the JSON when the sender posts a form.
    #[serde(default = "payload")]
    pub form_field: String,
    /// Whether a form without that field is itself the event, its fields being members of an object.
    /// Unset: as the sender of the scheme sends, else no.
    pub form_as_object: Option<bool>,
    /// Whether the sender must, may or cannot name an `Idempotency-Key`.
    #[serde(default)]
    pub idempotency_key: KeyPolicy,
    /// Which failures are stored under the key and replayed.
    #[serde(default)]
    pub replay_errors: ReplayErrors,
    /// What a captured delivery is recognised by when it comes again under an id that is not signed:
    /// nothing, or its body.
    #[serde(default)]
    pub replay_guard: ReplayGuard,
    /// What a success is answered with: 200, 201, 202 or 204.
    #[serde(default = "ok")]
    pub success_status: u16,
    /// How long the sender retries. Unset: what is known of the scheme's sender. `retention.processed_events` must be at least as long.
    #[serde(default, deserialize_with = "duration::option::deserialize")]
    pub retry_horizon: Option<Duration>,
    /// What applies the events, in this order.
    #[serde(default)]
    pub handler: Vec<HandlerSection>,
}

fn ok() -> u16 {
    SUCCESS_STATUSES[0]
}

fn payload() -> String {
    DEFAULT_FORM_FIELD.to_owned()
}

/// A sender, checked: what the operator wrote, and what came of it.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    pub section: SourceSection,
    pub source: Arc<Source>,
    /// The queue that deliveries come from, unless they are posted.
    pub queue: Option<QueueSpec>,
}

impl SourceSection {
    /// What is known of the sender, if `verify` names one.
    pub(super) fn preset(&self) -> Option<&'static Preset> {
        self.verify.as_ref().and_then(VerifyConfig::preset)
    }

    /// The dedup scope.
    #[must_use]
    pub fn consumer(&self) -> &str {
        self.consumer.as_deref().unwrap_or(&self.name)
    }

    fn resolve(
        self,
        at: &str,
        destinations: &[String],
        dialect: Option<Dialect>,
        environment: &Environment,
        report: &mut Report,
    ) -> Option<SourceConfig> {
        check_name(&format!("{at}.name"), &self.name, report);
        if let Some(consumer) = &self.consumer {
            check_name(&format!("{at}.consumer"), consumer, report);
        }
        if !SUCCESS_STATUSES.contains(&self.success_status) {
            report.error(
                &format!("{at}.success_status"),
                format!(
                    "{} is no success that a sender understands; write 200, 201, 202 or 204",
                    self.success_status
                ),
            );
        }
        if self.handler.len() > MAX_HANDLERS {
            report.error(
                &format!("{at}.handler"),
                format!(
                    "{} handlers are more than {MAX_HANDLERS}; join statements or split the source",
                    self.handler.len()
                ),
            );
        }
        let queue = match self.kind {
            SourceKind::Http => {
                self.refuse_keys_of_queues(at, report);
                None
            }
            // An error was reported.
            SourceKind::Amqp | SourceKind::Nats => Some(self.queue(at, environment, report)?),
        };
        let envelope = self.envelope();
        if let Err(error) = envelope.check() {
            report.error(&format!("{at}.event_id"), error.to_string());
        }
        let handlers: Vec<_> = self
            .handler
            .iter()
            .enumerate()
            .filter_map(|(number, handler)| {
                handler.binding(&format!("{at}.handler[{number}]"), destinations, dialect, report)
            })
            .collect();
        let source = Source {
            name: self.name.as_str().into(),
            consumer: self.consumer().into(),
            intake: if queue.is_some() { Intake::Queued } else { Intake::Posted },
            verifier: self.verifier(at, environment, report)?,
            envelope,
            key_policy: self.idempotency_key,
            replay_errors: self.replay_errors,
            replay_guard: self.replay_guard,
            success_status: self.success_status,
            handlers,
        };
        Some(SourceConfig { section: self, source: Arc::new(source), queue })
    }

    fn envelope(&self) -> EnvelopeRules {
        let usual = match self.kind {
            SourceKind::Http => self.preset().map_or_else(EnvelopeRules::default, |p| p.envelope.rules()),
            SourceKind::Amqp | SourceKind::Nats => QUEUED.rules(),
        };
        EnvelopeRules {
            event_id: self.event_id.clone().unwrap_or(usual.event_id),
            event_type: self.event_type.clone().or(usual.event_type),
            event_time: self.event_time.clone().or(usual.event_time),
            data: self.data.clone(),
            items: self.items.clone().or(usual.items),
            order_by: self.order_by.clone(),
            form_field: self.form_field.clone(),
            form_as_object: self.form_as_object.unwrap_or(usual.form_as_object),
            list_or_one: usual.list_or_one,
        }
    }

    /// `None` after an error was reported.
    fn verifier(&self, at: &str, environment: &Environment, report: &mut Report) -> Option<Verifier> {
        let key = format!("{at}.verify.secrets");
        // All are looked up, so that every one that is missing is named.
        let mut is_complete = true;
        let none = VerifyConfig { scheme: "none".to_owned(), ..VerifyConfig::default() };
        let verify = match (&self.verify, self.kind) {
            (Some(verify), SourceKind::Http) => verify,
            (None, SourceKind::Amqp | SourceKind::Nats) => &none,
            (None, SourceKind::Http) => {
                report.error(&format!("{at}.verify"), NO_VERIFY);
                return None;
            }
            (Some(_), SourceKind::Amqp | SourceKind::Nats) => {
                report.error(
                    &format!("{at}.verify"),
                    "messages of a queue are not verified: the broker says who may send; remove it",
                );
                return None;
            }
        };
        let verifier = Verifier::configured(verify, &mut |reference| {
            let secret = if verify.is_public(reference) {
                report.no_secret(&key, reference, environment)
            } else {
                report.secret(&key, reference, environment)
            };
            is_complete &= secret.is_some();
            secret
        });
        if !is_complete {
            return None;
        }
        let verifier =
            verifier.map_err(|error| report.error(&format!("{at}.verify"), error.to_string())).ok()?;
        self.check_contract(at, &verifier, report);
        if self.replay_guard == ReplayGuard::Body && !verifier.signs_body() {
            report.warn(
                &format!("{at}.replay_guard"),
                "it guards little: this scheme does not sign the whole body, so whoever captured a delivery can change what is not signed of it",
            );
        }
        Some(verifier)
    }

    /// An answer that the sender does not take for success would be sent again for ever.
    fn check_contract(&self, at: &str, verifier: &Verifier, report: &mut Report) {
        let contract = verifier.contract();
        if SUCCESS_STATUSES.contains(&self.success_status) && !contract.is_success(self.success_status) {
            report.error(
                &format!("{at}.success_status"),
                format!(
                    "this sender does not take {} for success and would send again; write one of {:?}",
                    self.success_status, contract.success
                ),
            );
        }
    }
}

/// Checks the sources one by one and among themselves. One that is missing from the result has
/// an error in the report.
pub(super) fn resolve_all(
    sections: Vec<SourceSection>,
    destinations: &[String],
    dialect: Option<Dialect>,
    environment: &Environment,
    report: &mut Report,
) -> Vec<SourceConfig> {
    if sections.len() > MAX_SOURCES {
        report.error("source", format!("{} sources are more than {MAX_SOURCES}", sections.len()));
    }
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (number, section) in sections.iter().enumerate() {
        if let Some(earlier) = first.get(&section.name) {
            report.error(
                &format!("source[{number}].name"),
                format!(
                    "source[{earlier}] is called {:?} too; a name is a path and can be used once",
                    section.name
                ),
            );
        } else {
            first.insert(section.name.clone(), number);
        }
    }
    warn_of_borrowed_scopes(&sections, report);
    sections
        .into_iter()
        .enumerate()
        .filter_map(|(number, section)| {
            section.resolve(&format!("source[{number}]"), destinations, dialect, environment, report)
        })
        .collect()
}

/// A consumer that happens to be another source's name is more often a slip than meant.
fn warn_of_borrowed_scopes(sections: &[SourceSection], report: &mut Report) {
    let names: BTreeSet<&str> = sections.iter().map(|section| section.name.as_str()).collect();
    for (number, section) in sections.iter().enumerate() {
        if let Some(consumer) = &section.consumer
            && *consumer != section.name
            && names.contains(consumer.as_str())
        {
            report.warn(
                &format!("source[{number}].consumer"),
                format!("events of {:?} and of the source {consumer:?} share one dedup scope: an id seen by one is a duplicate for the other", section.name),
            );
        }
    }
}

pub(super) fn check_name(key: &str, name: &str, report: &mut Report) {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !starts_well || !is_plain || name.len() > MAX_NAME_BYTES {
        report.error(key, format!(
            "{name:?} cannot be a name; use 1 to {MAX_NAME_BYTES} of a-z, A-Z, 0-9, '-', '_' and '.', beginning with a letter or digit"
        ));
    }
}
