//! `hooklatch outbox list`: the messages, in the order in which they were written.

use clap::Args;
use serde_json::json;

use crate::store::outbox::{MessageFilter, MessageRecord, MessageState};

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::table;
use super::super::workplace::Workplace;

const EXAMPLES: &str = "\
Examples:
  hooklatch outbox list --destination crm
  hooklatch outbox list --dead --json | jq -r .id
  hooklatch outbox list --state new,retry,sent";

/// List messages in the order in which they were written; those that were sent only with --state sent.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct List {
    #[command(flatten)]
    file: ConfigFile,
    /// Only messages for this destination
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
    /// Only messages of this aggregate
    #[arg(long, value_name = "ID")]
    aggregate: Option<String>,
    /// Only these: new, retry, parked, sent, dead, blocking
    #[arg(long, value_delimiter = ',', value_parser = state)]
    state: Vec<MessageState>,
    /// Only those that were given up: dead and blocking
    #[arg(long, conflicts_with = "state")]
    dead: bool,
    /// Only what was written after the message with this sequence
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<i64>,
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
        let filter = MessageFilter {
            destination: self.destination.clone(),
            states: Some(self.states()),
            aggregate_id: self.aggregate.clone(),
            ids: None,
            after: self.after,
            limit: self.limit,
        };
        let messages = place.store.messages(&filter).await?;
        if self.json {
            messages.iter().for_each(|message| say!("{}", as_json(message)));
            return Ok(());
        }
        let mut rows =
            table::new(["id", "written", "destination", "aggregate", "state", "attempts", "last answer"]);
        for message in &messages {
            rows.add_row([
                message.id.to_string(),
                table::time(message.created_at),
                table::cell(&message.destination),
                table::cell(message.aggregate_id.as_deref().unwrap_or("–")),
                message.state.as_str().to_owned(),
                message.attempts.to_string(),
                table::cell(&last_answer(message)),
            ]);
        }
        say!("{rows}");
        match (messages.len(), messages.last()) {
            (n, Some(last)) if n == self.limit as usize => {
                say!("the first {n}; --after {} goes on", last.sequence);
            }
            (n, _) => say!("{n} in all"),
        }
        Ok(())
    }

    fn states(&self) -> Vec<MessageState> {
        match self.state.is_empty() {
            _ if self.dead => vec![MessageState::Dead, MessageState::Blocking],
            true => MessageState::ALL.into_iter().filter(|state| *state != MessageState::Sent).collect(),
            false => self.state.clone(),
        }
    }
}

/// Why the last attempt failed, or its status.
pub(in super::super) fn last_answer(message: &MessageRecord) -> String {
    match (&message.last_error, message.last_status) {
        (Some(error), _) => error.clone(),
        (None, Some(status)) => status.to_string(),
        (None, None) => "–".to_owned(),
    }
}

/// A message with everything but its body.
pub(in super::super) fn as_json(message: &MessageRecord) -> serde_json::Value {
    let headers: serde_json::Map<String, serde_json::Value> =
        message.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    json!({
        "id": message.id,
        "destination": message.destination,
        "aggregate_id": message.aggregate_id,
        "sequence": message.sequence,
        "event_type": message.event_type,
        "content_type": message.content_type,
        "headers": headers,
        "traceparent": message.traceparent,
        "hops": message.hops,
        "created_at": message.created_at,
        "state": message.state.as_str(),
        "next_attempt_at": message.next_attempt_at,
        "attempts": message.attempts,
        "leased_until": message.leased_until,
        "sent_at": message.sent_at,
        "dead_at": message.dead_at,
        "last_status": message.last_status,
        "last_error": message.last_error,
        "answer_bytes": message.answer_bytes,
        "payload_bytes": message.payload_bytes,
    })
}

fn state(text: &str) -> Result<MessageState, String> {
    MessageState::parse(text).ok_or_else(|| {
        let known: Vec<_> = MessageState::ALL.into_iter().map(MessageState::as_str).collect();
        format!("write one of {}", known.join(", "))
    })
}
