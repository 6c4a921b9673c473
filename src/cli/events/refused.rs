//! `hooklatch events refused`: the deliveries that were refused before anything was kept, and why.

use clap::Args;

use crate::inbox::outcome::Outcome;
use crate::store::{LedgerEntry, LedgerFilter};

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::table;
use super::super::workplace::Workplace;
use super::list::{as_json, since};

/// What became of deliveries of which nothing was kept, by their senders' doing.
const REFUSED: [Outcome; 3] = [Outcome::Unverified, Outcome::Malformed, Outcome::Mismatch];

const EXAMPLES: &str = "\
Examples:
  hooklatch events refused --source github --since 1h --headers";

/// List deliveries that were refused, newest first, with the reason: a header that was missing, a
/// clock that is off, a secret that is not the sender's any more.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct Refused {
    #[command(flatten)]
    file: ConfigFile,
    /// Only deliveries to this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Only since then: "15m", "24h", or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show the headers too; what authenticates a sender is named and not shown
    #[arg(long)]
    headers: bool,
    /// At most so many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Refused {
    pub(super) async fn run(self) -> Result<(), Failure> {
        Workplace::visit(&self.file, async |place| self.list(place).await).await
    }

    async fn list(&self, place: &Workplace) -> Result<(), Failure> {
        let since = self.since.as_deref().map(|when| since(when, place.clock.now())).transpose()?;
        let filter = LedgerFilter {
            source: self.source.clone(),
            outcomes: REFUSED.to_vec(),
            since,
            limit: self.limit,
            ..LedgerFilter::default()
        };
        let entries = place.store.deliveries(&filter).await?;
        if self.json {
            for entry in &entries {
                say!("{}", as_json(entry));
            }
            return Ok(());
        }
        for entry in &entries {
            self.show(entry);
        }
        if entries.is_empty() {
            place.remark_on(self.source.as_deref());
        }
        match entries.len() {
            0 => say!("nothing was refused; retention.deliveries says how long the ledger is kept"),
            n if n == self.limit as usize => say!("the newest {n}; --limit shows more"),
            n => say!("{n} in all"),
        }
        if !entries.is_empty() {
            say!("of a request that you have in a file, `hooklatch explain` says more");
        }
        Ok(())
    }

    fn show(&self, entry: &LedgerEntry) {
        say!(
            "{}  {}  {} {}  from {}, a body of {} bytes  ({})",
            table::time(entry.received_at),
            table::cell(&entry.source),
            entry.status,
            entry.outcome.as_str(),
            table::cell(entry.peer.as_deref().unwrap_or("an unknown address")),
            entry.body_bytes,
            entry.delivery_id,
        );
        say!("    {}", table::line(entry.reason.as_deref().unwrap_or("no reason was kept")));
        if self.headers {
            for (name, value) in &entry.headers {
                say!("      {}: {}", table::line(name), table::line(value));
            }
        }
    }
}
