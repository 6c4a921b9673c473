//! Which messages an operator means, by id or by what they have in common.

use clap::Args;
use uuid::Uuid;

use crate::store::Store;
use crate::store::outbox::{MessageFilter, MessageState};

use super::super::Failure;
use super::super::selection::{self, Selection};

/// Messages read at a time.
const PAGE: u32 = 500;

/// Which messages: by id, or by destination, aggregate and standing.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Chosen {
    /// Ids of messages, as `outbox list` prints them
    #[arg(value_name = "ID", value_parser = message_id, conflicts_with_all = ["destination", "aggregate", "dead", "all"])]
    ids: Vec<Uuid>,
    /// Those for this destination
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    destination: Option<String>,
    /// Those of this aggregate
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    aggregate: Option<String>,
    /// Only those that were given up
    #[arg(long)]
    dead: bool,
    /// All that were not sent
    #[arg(long)]
    all: bool,
}

impl Chosen {
    /// Whether they are named by their ids.
    pub(super) fn names_them(&self) -> bool {
        !self.ids.is_empty()
    }

    fn filter(&self, after: Option<i64>) -> MessageFilter {
        let states = match self.dead {
            true => vec![MessageState::Dead, MessageState::Blocking],
            false => MessageState::ALL.into_iter().filter(|state| *state != MessageState::Sent).collect(),
        };
        MessageFilter {
            destination: self.destination.clone(),
            states: Some(states),
            aggregate_id: self.aggregate.clone(),
            ids: Some(self.ids.clone()).filter(|ids| !ids.is_empty()),
            after,
            limit: PAGE,
        }
    }
}

impl Selection for Chosen {
    const CALLED: &'static str = "message(s)";
    type Place = i64;

    async fn count(&self, store: &dyn Store) -> Result<u64, Failure> {
        let count = store.count_messages(&self.filter(None)).await?;
        if count == 0 && self.names_them() {
            return Err(Failure::new(
                "there is no such message that was not sent; `hooklatch outbox list` shows what there is",
            ));
        }
        Ok(count)
    }

    async fn page(&self, store: &dyn Store, after: Option<i64>) -> Result<Option<(Vec<Uuid>, i64)>, Failure> {
        let page = store.messages(&self.filter(after)).await?;
        let end = page.last().map(|message| message.sequence);
        Ok(end.map(|end| (page.iter().map(|message| message.id).collect(), end)))
    }
}

/// The id of a message.
pub(super) fn message_id(text: &str) -> Result<Uuid, String> {
    selection::id(
        text,
        "`hooklatch outbox list` prints those of messages, `hooklatch events show` those of an event",
    )
}
