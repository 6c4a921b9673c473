//! `hooklatch events show`: what happened to an event, as a timeline.

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;

use crate::store::{DeadLetter, DeadLetterFilter, EventRecord, LedgerEntry, LedgerFilter};

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::table;
use super::super::workplace::Workplace;
use super::list;

/// The newest deliveries that are shown.
const MAX_DELIVERIES: u32 = 100;
/// Dead letters that are shown: one for each consumer.
const MAX_LETTERS: u32 = 20;

/// Show what happened to an event: the inbox, its deliveries and its dead letter, in order of time.
#[derive(Debug, Args)]
pub(in super::super) struct Show {
    #[command(flatten)]
    file: ConfigFile,
    /// The event's id, as the sender wrote it
    #[arg(value_name = "EVENT_ID")]
    event_id: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Everything that is known of an event id.
struct History {
    events: Vec<EventRecord>,
    deliveries: Vec<LedgerEntry>,
    letters: Vec<DeadLetter>,
}

impl Show {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let place = Workplace::open(&self.file).await?;
        let history = self.read(&place).await;
        place.store.close().await;
        let history = history?;
        if history.events.is_empty() && history.deliveries.is_empty() && history.letters.is_empty() {
            return Err(Failure::new(format!(
                "nothing is known of an event {:?}: it never arrived, or longer ago than retention keeps",
                self.event_id
            )));
        }
        if self.json {
            println!("{}", history.as_json());
        } else {
            history.print(&self.event_id);
        }
        Ok(())
    }

    async fn read(&self, place: &Workplace) -> Result<History, Failure> {
        let event_id = Some(self.event_id.clone());
        let ledger =
            LedgerFilter { event_id: event_id.clone(), limit: MAX_DELIVERIES, ..LedgerFilter::default() };
        let buried = DeadLetterFilter { event_id, limit: MAX_LETTERS, ..DeadLetterFilter::default() };
        let store = &*place.store;
        Ok(History {
            events: store.events(&place.consumers(), &self.event_id).await?,
            deliveries: store.deliveries(&ledger).await?,
            letters: store.dead_letters(&buried).await?,
        })
    }
}

impl History {
    fn print(&self, event_id: &str) {
        println!("event {}", table::cell(event_id));
        for event in &self.events {
            println!(
                "  {} for {} (type {}, answered {})",
                event.state.as_str(),
                event.key.consumer,
                if event.event_type.is_empty() { "–".into() } else { table::cell(&event.event_type) },
                event.status
            );
        }
        if self.events.is_empty() {
            println!("  not in the inbox: it has not taken effect, or is forgotten");
        }
        for letter in &self.letters {
            println!(
                "  waits for a person: dead letter {} ({} attempt(s)); `hooklatch events retry {0}`",
                letter.id, letter.attempts
            );
        }
        let mut rows = table::new(["when", "what", "source", "detail"]);
        for (at, what, source, detail) in self.timeline() {
            rows.add_row([table::time(at), what, source, table::cell(&detail)]);
        }
        println!("{rows}");
        if self.deliveries.len() == MAX_DELIVERIES as usize {
            println!("the newest {MAX_DELIVERIES} deliveries are shown");
        }
    }

    /// When, what, source, detail; in order of time.
    fn timeline(&self) -> Vec<(DateTime<Utc>, String, String, String)> {
        let mut lines = Vec::new();
        for event in &self.events {
            if let Some(at) = event.occurred_at {
                lines.push((at, "happened".into(), event.source.clone(), "by the sender's clock".into()));
            }
            let what = format!("inbox: {}", event.state.as_str());
            lines.push((event.processed_at, what, event.source.clone(), String::new()));
        }
        for entry in &self.deliveries {
            let mut detail = format!("{} in {}", entry.status, table::millis(entry.duration));
            for (name, value) in [("from", &entry.peer), ("because", &entry.reason)] {
                if let Some(value) = value {
                    detail.push_str(&format!(", {name} {value}"));
                }
            }
            let what = format!("delivery: {}", entry.outcome.as_str());
            lines.push((entry.received_at, what, entry.source.clone(), detail));
        }
        for letter in &self.letters {
            let what = format!("dead letter: {}", letter.cause.as_str());
            lines.push((letter.died_at, what, letter.source.clone(), letter.reason.clone()));
        }
        lines.sort_by_key(|line| line.0);
        lines
    }

    fn as_json(&self) -> serde_json::Value {
        json!({
            "events": self.events.iter().map(|event| json!({
                "consumer": &*event.key.consumer,
                "event_id": &*event.key.event_id,
                "source": event.source,
                "event_type": event.event_type,
                "state": event.state.as_str(),
                "status": event.status,
                "occurred_at": event.occurred_at,
                "processed_at": event.processed_at,
            })).collect::<Vec<_>>(),
            "deliveries": self.deliveries.iter().map(list::as_json).collect::<Vec<_>>(),
            "dead_letters": self.letters.iter().map(|letter| json!({
                "id": letter.id,
                "consumer": &*letter.key.consumer,
                "source": letter.source,
                "cause": letter.cause.as_str(),
                "reason": letter.reason,
                "attempts": letter.attempts,
                "body_bytes": letter.body.len(),
                "received_at": letter.received_at,
                "died_at": letter.died_at,
            })).collect::<Vec<_>>(),
        })
    }
}
