//! `hooklatch check`: would `serve` work here? One line a question, with the way out.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;

use crate::clock::Clock;
use crate::config::duration::show;
use crate::config::{Config, SourceConfig};
use crate::envelope::Locator;
use crate::handler::Step;
use crate::lifecycle::{SchemaError, prepare_schema};
use crate::outbox::destination;
use crate::signature::HandshakeKind;
use crate::source::ReplayGuard;
use crate::store::sqlite;
use crate::tls::{Freshness, Material};

use super::config_file::{ConfigFile, Workplace, missing_file};
use super::failure::{Failure, causes};

/// How far our clock may be from the database's before somebody should look. Signatures are judged
/// by our clock, expiry by the database's.
const CLOCKS_MAY_DIFFER: Duration = Duration::from_secs(1);
/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Check the configuration, the database, every handler and every destination, without starting anything
/// or sending a message.
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    file: ConfigFile,
}

/// How an answer is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Look,
    Bad,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "✓",
            Self::Look => "!",
            Self::Bad => "✗",
        })
    }
}

/// The lines that were printed.
#[derive(Debug, Default)]
struct Findings {
    bad: usize,
}

impl Findings {
    fn say(&mut self, verdict: Verdict, about: &str, what: &str) {
        say!("{verdict} {about}: {}", what.replace('\n', "\n    "));
        if verdict == Verdict::Bad {
            self.bad += 1;
        }
    }

    fn verdict(&self) -> Result<(), Failure> {
        if self.bad == 0 { Ok(()) } else { Err(Failure::said()) }
    }
}

impl Check {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let config = self.file.load()?;
        let mut findings = Findings::default();
        findings.say(Verdict::Good, "configuration", &self.file.name());
        findings.say(Verdict::Good, "retention", "no window contradicts another");
        about_certificates(&config, &mut findings);
        about_sources(&config, &mut findings);
        about_destinations(&config, &mut findings).await;
        for warning in &config.warnings {
            findings.say(
                Verdict::Look,
                &warning.place.to_string(),
                &format!("{}: {}", warning.key, warning.message),
            );
        }
        about_queues(&config, &mut findings).await;
        if let Some(path) = missing_file(&config) {
            if let Err(error) = sqlite::try_to_make(&path) {
                findings.say(Verdict::Bad, "database", &causes(&error));
                return findings.verdict();
            }
            findings.say(
                Verdict::Look,
                "database",
                &format!(
                    "{} is not there yet; `serve` or `migrate` makes it. Handlers were not checked",
                    path.display()
                ),
            );
            return findings.verdict();
        }
        match tokio::time::timeout(PATIENCE, Workplace::open_or_make(&self.file)).await {
            Ok(Ok(place)) => {
                about_database(&place, &mut findings).await;
                place.store.close().await;
            }
            Ok(Err(failure)) => findings.say(Verdict::Bad, "database", &failure.to_string()),
            Err(_) => findings.say(Verdict::Bad, "database", &no_answer(&config)),
        }
        findings.verdict()
    }
}

fn about_certificates(config: &Config, findings: &mut Findings) {
    for (key, section) in [("http.tls", &config.http.tls), ("admin.tls", &config.admin.tls)] {
        let Some(section) = section else { continue };
        match Material::load(&section.files()) {
            Ok(material) => {
                let freshness = material.freshness(Clock::system().now());
                let verdict = match freshness {
                    Freshness::Good { .. } => Verdict::Good,
                    Freshness::EndsSoon { .. } => Verdict::Look,
                    Freshness::Ended { .. } | Freshness::NotYet { .. } => Verdict::Bad,
                };
                findings.say(verdict, key, &freshness.to_string());
            }
            Err(error) => findings.say(Verdict::Bad, key, &causes(&error)),
        }
    }
}

fn about_sources(config: &Config, findings: &mut Findings) {
    if config.sources.is_empty() {
        findings.say(
            Verdict::Look,
            "sources",
            "there is none; every delivery would be answered 404. Add a [[source]]",
        );
    }
    for source in &config.sources {
        let section = &source.section;
        let about = format!("source {}", section.name);
        if source.queue.is_none() && source.source.verifier.scheme() == "none" {
            findings.say(
                Verdict::Look,
                &about,
                "deliveries are not verified: whoever reaches the port can send events",
            );
        }
        if section.handler.is_empty() {
            findings.say(
                Verdict::Look,
                &about,
                "it has no [[source.handler]]: every event is recorded and ignored",
            );
        }
        about_retries(config, source, &about, findings);
        about_replays(config, source, &about, findings);
        let verifier = &source.source.verifier;
        if verifier.handshake_kind() == HandshakeKind::Meta
            && section.verify.as_ref().is_some_and(|verify| verify.handshake_token.is_none())
        {
            findings.say(
                Verdict::Look,
                &about,
                "there is no verify.handshake_token, so the sender's question whether the address is ours is not answered",
            );
        }
    }
}

/// Does the memory of events outlast the sender's retries?
fn about_retries(config: &Config, source: &SourceConfig, about: &str, findings: &mut Findings) {
    let remembered = show(config.retention.processed_events);
    let known =
        source.section.retry_horizon.or_else(|| source.section.verify.as_ref()?.preset()?.retry_horizon);
    let what = match known {
        // A shorter memory is an error of the configuration.
        Some(horizon) => {
            format!("event keys are remembered for {remembered}, the sender retries for {}", show(horizon))
        }
        None => format!(
            "event keys are remembered for {remembered}; how long the sender retries is not known, retry_horizon says it"
        ),
    };
    findings.say(Verdict::Good, about, &what);
}

/// What can whoever captured a delivery do with it?
fn about_replays(config: &Config, source: &SourceConfig, about: &str, findings: &mut Findings) {
    let (verifier, envelope) = (&source.source.verifier, &source.source.envelope);
    if !verifier.signs_body() {
        return;
    }
    let remembered = config.retention.processed_events;
    let window = verifier.replay_window();
    let how_long = window.map_or_else(|| "for ever".to_owned(), |window| format!("for {}", show(window)));
    let unsigned = |place: &Locator| place.headers().iter().any(|name| !verifier.signs_header(name));
    let tells_age = envelope.event_time.as_ref().is_some_and(|place| !unsigned(place));
    match window {
        Some(window) if remembered < window => findings.say(Verdict::Look, about, &format!(
            "a captured delivery verifies {how_long}, longer than event keys are remembered; lengthen retention.processed_events"
        )),
        None if !tells_age => findings.say(Verdict::Look, about, &format!(
            "a captured delivery verifies {how_long}, but event keys are forgotten after {}, and then it would take effect again; name an event_time that is signed, and older events are not applied, or lengthen retention.processed_events",
            show(remembered),
        )),
        _ => {}
    }
    if let Some(place) = envelope.event_id.as_slice().iter().find(|place| unsigned(place))
        && source.section.replay_guard == ReplayGuard::None
    {
        findings.say(Verdict::Look, about, &format!(
            "the event id is in {place}, which is not signed: a captured delivery can be sent again under another id, {how_long}; replay_guard = \"body\" lets each body take effect once, event_id with places in the body is better still"
        ));
    }
}

/// Each is reached as far as an attempt would before it sends something.
async fn about_destinations(config: &Config, findings: &mut Findings) {
    for spec in &config.destinations {
        let about = format!("destination {}", spec.name);
        let reached = match destination::open(spec) {
            Ok(destination) => destination.probe().await,
            Err(error) => Some(Err(causes(&error))),
        };
        match reached {
            Some(Ok(how_far)) => findings.say(Verdict::Good, &about, &how_far),
            // Messages wait for it and nothing is lost: `serve` works.
            Some(Err(reason)) => findings.say(Verdict::Look, &about, &reason),
            None => {}
        }
    }
}

async fn about_queues(config: &Config, findings: &mut Findings) {
    for spec in config.queues() {
        let Some(queue) = spec.queue() else { continue };
        let about = format!("source {} queue {}", spec.source, spec.queue);
        match queue.probe().await {
            Ok(found) => findings.say(Verdict::Good, &about, &found),
            Err(reason) => findings.say(Verdict::Bad, &about, &reason),
        }
    }
}

async fn about_database(place: &Workplace, findings: &mut Findings) {
    let store = &*place.store;
    let url = place.config.database.url.to_string();
    let asked = place.clock.now();
    match tokio::time::timeout(PATIENCE, store.now()).await {
        Ok(Ok(theirs)) => {
            findings.say(Verdict::Good, "database", &format!("{url} answers"));
            about_clocks(asked, theirs, place.clock.now(), findings);
        }
        Ok(Err(error)) => {
            return findings.say(Verdict::Bad, "database", &format!("{url}: {}", causes(&error)));
        }
        Err(_) => return findings.say(Verdict::Bad, "database", &no_answer(&place.config)),
    }
    match prepare_schema(store, false).await {
        Ok(()) => findings.say(Verdict::Good, "migrations", "all are applied"),
        Err(SchemaError::Pending(names)) if place.config.database.auto_migrate => {
            return findings.say(
                Verdict::Look,
                "migrations",
                &format!("{} are missing; `serve` will apply them. Handlers were not checked", names.len()),
            );
        }
        Err(error) => return findings.say(Verdict::Bad, "migrations", &causes(&error)),
    }
    about_handlers(place, findings).await;
}

fn about_clocks(
    asked: DateTime<Utc>,
    theirs: DateTime<Utc>,
    answered: DateTime<Utc>,
    findings: &mut Findings,
) {
    // Their reading was taken somewhere between our two.
    let difference = if theirs < asked {
        asked - theirs
    } else if theirs > answered {
        theirs - answered
    } else {
        chrono::TimeDelta::zero()
    };
    let milliseconds = difference.num_milliseconds();
    if difference.to_std().is_ok_and(|difference| difference <= CLOCKS_MAY_DIFFER) {
        findings.say(
            Verdict::Good,
            "clocks",
            &format!("this machine and the database differ by {milliseconds} ms"),
        );
    } else {
        findings.say(Verdict::Look, "clocks", &format!(
            "this machine and the database differ by {milliseconds} ms; synchronise them, signatures are judged by this clock"
        ));
    }
}

async fn about_handlers(place: &Workplace, findings: &mut Findings) {
    for source in place.config.run_time_sources() {
        for (number, binding) in source.handlers.iter().enumerate() {
            let Step::Sql(handler) = &binding.step else { continue };
            let about = format!("source {} handler {}", source.name, number + 1);
            match place.store.check_handler(handler).await {
                Ok(()) => findings.say(Verdict::Good, &about, "the database accepts the statement"),
                Err(error) => findings.say(Verdict::Bad, &about, &causes(&error)),
            }
        }
    }
}

fn no_answer(config: &Config) -> String {
    format!(
        "{} did not answer within {} s; check host, port and firewall, or database.url",
        config.database.url,
        PATIENCE.as_secs()
    )
}
