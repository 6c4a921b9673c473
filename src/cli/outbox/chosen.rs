//! Which messages an operator means, by id or by what they have in common.

use clap::Args;
use uuid::Uuid;

use crate::store::outbox::{MessageFilter, MessageState};
use crate::store::{Store, StoreError};

use super::super::Failure;

/// Messages read at a time.
const PAGE: u32 = 500;

/// Which messages: by id, or by destination, aggregate and standing.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Chosen {
    /// Ids of messages, as `outbox list` prints them
    #[arg(value_name = "ID", conflicts_with_all = ["destination", "aggregate", "dead", "all"])]
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

    /// How many there are now.
    pub(super) async fn count(&self, store: &dyn Store) -> Result<u64, Failure> {
        let count = store.count_messages(&self.filter(None)).await?;
        if count == 0 && self.names_them() {
            return Err(Failure::new(
                "there is no such message that was not sent; `hooklatch outbox list` shows what there is",
            ));
        }
        Ok(count)
    }

    /// The ids of the next page, and where the one after it begins; `None` after the last.
    pub(super) async fn page(
        &self,
        store: &dyn Store,
        after: Option<i64>,
    ) -> Result<Option<(Vec<Uuid>, Option<i64>)>, StoreError> {
        let page = store.messages(&self.filter(after)).await?;
        let next = page.last().map(|message| message.sequence);
        let ids: Vec<_> = page.iter().map(|message| message.id).collect();
        Ok((!ids.is_empty()).then_some((ids, next)))
    }
}

/// Goes on only with `--yes`; otherwise says what would happen.
pub(super) fn confirm(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    Err(Failure::usage(format!("this would {what}; add --yes to do it")))
}
