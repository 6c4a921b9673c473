//! `hooklatch events retry`: applies dead letters again, through the same path as a delivery.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;

use crate::app;
use crate::inbox::Inbox;
use crate::inbox::outcome::Outcome;
use crate::outbox::Hints;
use crate::store::DeadLetter;
use crate::telemetry::metrics::Metrics;

use super::super::config_file::ConfigFile;
use super::super::failure::{Failure, causes};
use super::super::selection::agreed;
use super::super::table;
use super::super::workplace::Workplace;
use super::letters::Chosen;

const EXAMPLES: &str = "\
Examples:
  hooklatch events retry --event-id evt_1
  hooklatch events retry --source shop --yes";

/// Apply dead letters again, now that what stood in their way is gone.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct Retry {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    chosen: Chosen,
    /// Do it; without, only the number is shown. Not needed for a single one that is named
    #[arg(long)]
    yes: bool,
}

impl Retry {
    pub(super) async fn run(self) -> Result<(), Failure> {
        Workplace::visit(&self.file, async |place| self.retry(place).await).await
    }

    async fn retry(&self, place: &Workplace) -> Result<(), Failure> {
        // One that was named can be retried as it is: if it fails again, nothing has changed.
        let agrees = |count| self.yes || (count == 1 && self.chosen.names_them());
        let agreed = agreed(&self.chosen, &*place.store, agrees, |all| format!("apply {all} again"));
        if agreed.await?.is_none() {
            return Ok(());
        }
        let inbox = app::start_inbox(
            &place.store,
            &place.config,
            &place.clock,
            &Arc::new(Metrics::new()),
            Hints::default(),
        );
        let result = self.apply(place, &inbox).await;
        inbox.drain().await;
        result
    }

    async fn apply(&self, place: &Workplace, inbox: &Inbox) -> Result<(), Failure> {
        let sources = place.config.run_time_sources();
        let mut rows = table::new(["dead letter", "source", "event", "outcome", "why"]);
        let mut tally: BTreeMap<String, u64> = BTreeMap::new();
        let mut failed = false;
        let mut pages = self.chosen.pages();
        while let Some(page) = pages.next(&self.chosen, &*place.store).await? {
            for letter in page {
                let labels =
                    [letter.id.to_string(), letter.source.clone(), table::cell(&letter.key.event_id)];
                let source = sources.iter().find(|source| *source.name == *letter.source).cloned();
                let (outcome, why) = settle(inbox, letter, source).await;
                failed |= !is_settled(outcome);
                let outcome = outcome.map_or("not tried", Outcome::as_str);
                *tally.entry(outcome.to_owned()).or_default() += 1;
                let [id, source, event] = labels;
                rows.add_row([id, source, event, outcome.to_owned(), table::cell(&why)]);
            }
        }
        say!("{rows}");
        for (outcome, count) in tally {
            say!("{count} {outcome}");
        }
        if failed {
            return Err(Failure::new("not every event was applied; the dead letters of the others are kept"));
        }
        Ok(())
    }
}

async fn settle(
    inbox: &Inbox,
    letter: DeadLetter,
    source: Option<Arc<crate::source::Source>>,
) -> (Option<Outcome>, String) {
    match inbox.retry(letter, source).await {
        Ok(answer) => (Some(answer.outcome), answer.reason.unwrap_or_default()),
        Err(error) => (None, causes(&error).replace('\n', " ")),
    }
}

/// The event has taken effect, or needs none.
fn is_settled(outcome: Option<Outcome>) -> bool {
    match outcome {
        Some(
            Outcome::Applied | Outcome::Replayed | Outcome::Duplicate | Outcome::Stale | Outcome::Ignored,
        ) => true,
        Some(
            Outcome::Rejected
            | Outcome::Conflict
            | Outcome::Mismatch
            | Outcome::Unverified
            | Outcome::Malformed
            | Outcome::Handshake
            | Outcome::Unavailable,
        )
        | None => false,
    }
}
