//! `hooklatch events show`: what happened to an event, as a timeline.

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;

use crate::inbox::outcome::Outcome;
use crate::store::outbox::{MessageRecord, MessageState, carried_on};
use crate::store::{DeadLetter, DeadLetterFilter, EventRecord, LedgerEntry, LedgerFilter};

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::outbox::list as messages;
use super::super::table;
use super::super::workplace::Workplace;
use super::list;

/// The newest deliveries that are shown.
const MAX_DELIVERIES: u32 = 100;
/// Dead letters that are shown: one for each consumer.
const MAX_LETTERS: u32 = 20;

/// How many of the newest refused deliveries are searched for the id: what nobody vouched for has no event.
const SEARCHED_REFUSALS: u32 = 10_000;

/// Show what happened to an event: its deliveries, the inbox, its dead letter and the messages that carry it
/// on, in order of time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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

const EXAMPLES: &str = "\
Examples:
  hooklatch events show evt_1
  hooklatch events show evt_1 --json | jq '.messages[] | {destination, state, sent_at}'";

/// Everything that is known of an event id.
struct History {
    events: Vec<EventRecord>,
    deliveries: Vec<LedgerEntry>,
    letters: Vec<DeadLetter>,
    /// What carries it on, by the source whose event it is.
    messages: Vec<(String, MessageRecord)>,
}

impl Show {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let place = Workplace::open(&self.file).await?;
        let history = self.read(&place).await;
        place.store.close().await;
        let history = history?;
        if history.events.is_empty() && history.deliveries.is_empty() && history.letters.is_empty() {
            return Err(Failure::new(format!(
                "nothing is known of an event {:?}: it never arrived, or longer ago than retention keeps, or it was refused before its body was believed, which `hooklatch events refused` shows",
                self.event_id
            )));
        }
        if self.json {
            say!("{}", history.as_json());
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
        let events = store.events(&place.consumers(), &self.event_id).await?;
        let mut deliveries = store.deliveries(&ledger).await?;
        deliveries.extend(self.refused(place).await?);
        let messages = carried_on(store, &events).await?;
        Ok(History { events, deliveries, letters: store.dead_letters(&buried).await?, messages })
    }

    /// Deliveries that named the id in a header and were refused: the ledger has no event of them.
    async fn refused(&self, place: &Workplace) -> Result<Vec<LedgerEntry>, Failure> {
        let filter = LedgerFilter {
            outcomes: vec![Outcome::Unverified, Outcome::Malformed],
            limit: SEARCHED_REFUSALS,
            ..LedgerFilter::default()
        };
        let mut refused = place.store.deliveries(&filter).await?;
        refused.retain(|entry| {
            entry.event_id.is_none() && entry.headers.iter().any(|(_, value)| *value == self.event_id)
        });
        Ok(refused)
    }
}

impl History {
    fn print(&self, event_id: &str) {
        say!("event {}", table::cell(event_id));
        for event in &self.events {
            say!(
                "  {} for {} (type {}, answered {})",
                event.state.as_str(),
                event.key.consumer,
                if event.event_type.is_empty() { "–".into() } else { table::cell(&event.event_type) },
                event.status
            );
        }
        if self.events.is_empty() {
            say!("  not in the inbox: it has not taken effect, or is forgotten");
        }
        for letter in &self.letters {
            say!(
                "  waits for a person: dead letter {} ({} attempt(s)); `hooklatch events retry {0}`",
                letter.id,
                letter.attempts
            );
        }
        for (_, message) in &self.messages {
            say!("  {}", fate(message));
        }
        let mut rows = table::new(["when", "what", "source", "detail"]);
        for (at, what, source, detail) in self.timeline() {
            rows.add_row([table::time(at), what, source, table::paragraph(&detail)]);
        }
        say!("{rows}");
        if self.deliveries.len() == MAX_DELIVERIES as usize {
            say!("the newest {MAX_DELIVERIES} deliveries are shown");
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
            for (name, value) in [("from", entry.peer.as_deref()), ("because", entry.reason.as_deref())] {
                if let Some(value) = value {
                    detail.push_str(&format!(", {name} {value}"));
                }
            }
            let what = format!("delivery: {}", entry.outcome.as_str());
            lines.push((entry.received_at, what, entry.source.to_string(), detail));
        }
        for letter in &self.letters {
            let what = format!("dead letter: {}", letter.cause.as_str());
            lines.push((letter.died_at, what, letter.source.clone(), letter.reason.clone()));
        }
        for (source, message) in &self.messages {
            lines.push((message.created_at, "message: written".into(), source.clone(), onward(message)));
            if let Some(at) = message.sent_at {
                let detail = format!("{}, answered {}", onward(message), messages::last_answer(message));
                lines.push((at, "message: sent".into(), source.clone(), detail));
            }
            if let Some(at) = message.dead_at {
                let detail = format!("{}, {}", onward(message), messages::last_answer(message));
                lines.push((at, "message: given up".into(), source.clone(), detail));
            }
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
            "messages": self.messages.iter().map(|(_, message)| messages::as_json(message)).collect::<Vec<_>>(),
        })
    }
}

fn onward(message: &MessageRecord) -> String {
    format!("to {}", message.destination)
}

/// Where a message that carries an event on stands, and what to do about it.
fn fate(message: &MessageRecord) -> String {
    let (to, id) = (&message.destination, message.id);
    match message.state {
        MessageState::Sent => format!("sent on to {to} (message {id})"),
        MessageState::New => {
            format!("waits to be sent on to {to} (message {id}); `hooklatch destinations list`")
        }
        MessageState::Retry => format!(
            "is sent on to {to} again after {} attempt(s) (message {id}); `hooklatch outbox show {id}`",
            message.attempts
        ),
        MessageState::Parked => format!(
            "waits for an earlier message of its aggregate to {to} (message {id}); `hooklatch outbox list --destination {to}`"
        ),
        MessageState::Dead | MessageState::Blocking => format!(
            "not sent on to {to}: given up after {} attempt(s) (message {id}); `hooklatch outbox retry {id}`",
            message.attempts
        ),
    }
}
