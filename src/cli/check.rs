//! `hooklatch check`: would `serve` work here? One line a question, with the way out.

mod database;
mod sources;

use std::fmt;

use clap::Args;

use crate::clock::Clock;
use crate::config::Config;
use crate::outbox::destination;
use crate::tls::{Freshness, Material};

use super::config_file::ConfigFile;
use super::failure::{Failure, causes};

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
        sources::about(&config, &mut findings);
        about_destinations(&config, &mut findings).await;
        for warning in &config.warnings {
            findings.say(
                Verdict::Look,
                &warning.place.to_string(),
                &format!("{}: {}", warning.key, warning.message),
            );
        }
        about_queues(&config, &mut findings).await;
        database::about(&self.file, &config, &mut findings).await;
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
