//! `hooklatch outbox show`: one message, its failed attempts and, if wanted, its body.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use crate::store::outbox::{AttemptRecord, MessageFilter, MessageRecord};

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::table;
use super::super::workplace::Workplace;
use super::chosen::message_id;
use super::list::{as_json, last_answer};

/// Show a message and every attempt that failed.
#[derive(Debug, Args)]
pub(in super::super) struct Show {
    #[command(flatten)]
    file: ConfigFile,
    /// Id of the message, as `outbox list` and `events show` print it
    #[arg(value_parser = message_id)]
    id: Uuid,
    /// Only the body, byte for byte
    #[arg(long, conflicts_with = "json")]
    body: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self) -> Result<(), Failure> {
        Workplace::visit(&self.file, async |place| self.show(place).await).await
    }

    async fn show(&self, place: &Workplace) -> Result<(), Failure> {
        let store = &*place.store;
        if self.body {
            let body = store.message_payload(self.id).await?.ok_or_else(|| self.missing())?;
            return std::io::stdout()
                .write_all(&body)
                .map_err(|error| Failure::because("cannot write the body", &error));
        }
        let filter = MessageFilter { ids: Some(vec![self.id]), limit: 1, ..MessageFilter::default() };
        let message = store.messages(&filter).await?.pop().ok_or_else(|| self.missing())?;
        let attempts = store.message_attempts(self.id).await?;
        if self.json {
            let mut whole = as_json(&message);
            whole["failed_attempts"] = attempts.iter().map(attempt_as_json).collect();
            say!("{whole}");
            return Ok(());
        }
        print_message(&message);
        if attempts.is_empty() {
            say!("no attempt has failed");
            return Ok(());
        }
        let mut rows = table::new(["attempt", "ended", "took", "why it failed", "first bytes of the answer"]);
        for attempt in &attempts {
            rows.add_row([
                attempt.attempt.to_string(),
                table::time(attempt.ended_at),
                table::millis(attempt.latency),
                table::cell(&attempt.error),
                table::cell(&String::from_utf8_lossy(&attempt.answer)),
            ]);
        }
        say!("{rows}");
        Ok(())
    }

    fn missing(&self) -> Failure {
        Failure::new(format!("there is no message {}; `hooklatch outbox list` shows what there is", self.id))
    }
}

fn print_message(message: &MessageRecord) {
    let time = |at: Option<_>| at.map_or_else(|| "–".to_owned(), table::time);
    let mut rows = table::new(["message", ""]);
    for (name, value) in [
        ("id", message.id.to_string()),
        ("destination", message.destination.clone()),
        ("aggregate", message.aggregate_id.clone().unwrap_or_else(|| "–".to_owned())),
        ("type", message.event_type.clone()),
        ("content type", message.content_type.clone()),
        ("bytes", message.payload_bytes.to_string()),
        ("written", table::time(message.created_at)),
        ("state", message.state.as_str().to_owned()),
        ("attempts", message.attempts.to_string()),
        ("next attempt", time(Some(message.next_attempt_at))),
        ("sent", time(message.sent_at)),
        ("given up", time(message.dead_at)),
        ("last answer", last_answer(message)),
    ] {
        rows.add_row([name.to_owned(), table::cell(&value)]);
    }
    say!("{rows}");
}

fn attempt_as_json(attempt: &AttemptRecord) -> serde_json::Value {
    json!({
        "attempt": attempt.attempt,
        "ended_at": attempt.ended_at,
        "latency_ms": attempt.latency.as_secs_f64() * 1000.0,
        "status": attempt.status,
        "error": attempt.error,
        "answer": String::from_utf8_lossy(&attempt.answer),
        "answer_bytes": attempt.answer_bytes,
    })
}
