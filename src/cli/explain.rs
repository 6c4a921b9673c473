//! `hooklatch explain`: what would verification do with a captured request?

mod capture;

use std::net::IpAddr;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Args;

use super::Failure;
use super::config_file::ConfigFile;
use super::workplace::no_source;
use crate::clock::Clock;
use crate::envelope::Parsed;
use crate::signature::Step;
use crate::source::Source;

const EXAMPLES: &str = "\
Examples:
  hooklatch explain --source github --request captured.http
  hooklatch explain --source stripe --request captured.http --at 2026-01-31T12:00:00Z";

/// Say step by step what verification does with a captured request
///
/// The file holds the request as it came over the wire: request line, headers, an empty line, and
/// the body to the last byte. No secret and nothing of the body is printed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explain {
    #[command(flatten)]
    file: ConfigFile,
    /// The source it was sent to
    #[arg(long, value_name = "NAME")]
    source: String,
    /// The captured request; "-" is standard input
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// The time to judge it at, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<DateTime<Utc>>,
    /// The address it came from, for allow_ips
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,
}

impl Explain {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let config = self.file.load()?;
        let source = config.sources.iter().find(|known| known.section.name == self.source);
        let source = source.ok_or_else(|| no_source(&config, &self.source))?;
        let captured = capture::read(&self.request).await?;
        for remark in &captured.remarks {
            print(None, remark);
        }
        let source = &source.source;
        let now = self.at.unwrap_or_else(|| Clock::system().now());
        source.verifier.prepare(&captured.request, now).await;
        if source.verifier.handshake(&captured.method, &captured.request, now).is_some() {
            print(Some(true), "it asks whether this address is ours, and would be answered");
            return Ok(());
        }
        let explanation = source.verifier.explain(&captured.method, &captured.request, self.peer, now);
        for Step { is_good, text } in &explanation.steps {
            print(*is_good, text);
        }
        let is_let_in = !explanation.steps.iter().any(|step| step.is_good == Some(false));
        if explanation.verdict.is_err() || !is_let_in {
            return Err(Failure::new("it would be refused"));
        }
        match source.envelope.parse(&source.consumer, &captured.request) {
            Ok(parsed) => tell_events(source, &parsed),
            Err(error) => {
                print(Some(false), &error.to_string());
                return Err(Failure::new("it is verified, but no delivery this source understands"));
            }
        }
        Ok(())
    }
}

fn tell_events(source: &Source, parsed: &Parsed) {
    print(Some(true), &format!("it carries {} event(s)", parsed.events.len()));
    for event in &parsed.events {
        let handlers = source.planned(source.plan(&event.event_type)).count();
        print(
            None,
            &format!("id {:?}, type {:?}: {handlers} handler(s)", &*event.key.event_id, &*event.event_type),
        );
    }
}

fn print(is_good: Option<bool>, text: &str) {
    let mark = match is_good {
        Some(true) => "✓",
        Some(false) => "✗",
        None => "·",
    };
    say!("{mark} {text}");
}
