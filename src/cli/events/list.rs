//! `hooklatch events list`: the ledger of deliveries, newest first.

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;

use crate::config::duration;
use crate::inbox::outcome::Outcome;
use crate::store::{LedgerEntry, LedgerFilter};

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::table;
use super::super::workplace::Workplace;

const EXAMPLES: &str = "\
Examples:
  hooklatch events list --source shop --since 1h
  hooklatch events list --outcome rejected --json | jq -r .event_id";

/// List what arrived and what became of it, newest first, duplicates included.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct List {
    #[command(flatten)]
    file: ConfigFile,
    /// Only deliveries to this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Only this outcome: applied, duplicate, rejected, unverified, …
    #[arg(long, value_parser = outcome)]
    outcome: Option<Outcome>,
    /// Only since then: "15m", "24h", or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        Workplace::visit(&self.file, async |place| self.list(place).await).await
    }

    async fn list(&self, place: &Workplace) -> Result<(), Failure> {
        let since = self.since.as_deref().map(|when| since(when, place.clock.now())).transpose()?;
        let filter = LedgerFilter {
            source: self.source.clone(),
            outcomes: self.outcome.into_iter().collect(),
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
        let mut rows = table::new(["received", "source", "event", "type", "outcome", "status", "took"]);
        for entry in &entries {
            rows.add_row([
                table::time(entry.received_at),
                entry.source.to_string(),
                table::cell(entry.event_id.as_deref().unwrap_or("–")),
                table::cell(entry.event_type.as_deref().unwrap_or("–")),
                entry.outcome.as_str().to_owned(),
                entry.status.to_string(),
                table::millis(entry.duration),
            ]);
        }
        say!("{rows}");
        if entries.is_empty() {
            place.remark_on(self.source.as_deref());
        }
        match entries.len() {
            0 => say!("nothing arrived that matches; retention.deliveries says how long the ledger is kept"),
            n if n == self.limit as usize => say!("the newest {n}; --limit shows more"),
            n => say!("{n} in all"),
        }
        Ok(())
    }
}

/// A ledger entry with everything in it.
pub(super) fn as_json(entry: &LedgerEntry) -> serde_json::Value {
    json!({
        "delivery_id": entry.delivery_id,
        "ordinal": entry.ordinal,
        "received_at": entry.received_at,
        "source": entry.source,
        "event_id": entry.event_id,
        "event_type": entry.event_type,
        "idempotency_key": entry.idempotency_key,
        "outcome": entry.outcome.as_str(),
        "status": entry.status,
        "duration_ms": entry.duration.as_secs_f64() * 1000.0,
        "body_bytes": entry.body_bytes,
        "peer": entry.peer,
        "reason": entry.reason,
        "headers": entry.headers,
    })
}

fn outcome(text: &str) -> Result<Outcome, String> {
    Outcome::parse(text).ok_or_else(|| {
        let known: Vec<_> = Outcome::ALL.into_iter().map(Outcome::as_str).collect();
        format!("write one of {}", known.join(", "))
    })
}

pub(super) fn since(when: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Failure> {
    if let Ok(at) = DateTime::parse_from_rfc3339(when) {
        return Ok(at.to_utc());
    }
    let age = duration::parse(when).ok().and_then(|age| chrono::TimeDelta::from_std(age).ok());
    age.and_then(|age| now.checked_sub_signed(age)).ok_or_else(|| {
        Failure::usage(format!(
            "--since {when:?} is no time; write \"15m\", \"24h\", or a time such as 2026-01-31T12:00:00Z"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_takes_an_age_or_a_time() {
        let now = DateTime::from_timestamp(1_000_000, 0).expect("a time");
        assert_eq!(since("15m", now).map(|at| at.timestamp()).ok(), Some(1_000_000 - 15 * 60));
        assert_eq!(since("1970-01-01T00:00:05+00:00", now).map(|at| at.timestamp()).ok(), Some(5));
        assert!(since("yesterday", now).is_err());
        assert!(since("99999999999999999999y", now).is_err());
        assert!(since("500000000y", now).is_err());
    }
}
