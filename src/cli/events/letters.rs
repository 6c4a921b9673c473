//! Which dead letters an operator means.

use clap::Args;
use uuid::Uuid;

use crate::clock;
use crate::store::{DeadLetter, DeadLetterFilter, Store, StoreError};

use super::super::Failure;
use super::super::selection::{self, Selection};

/// Dead letters read at a time.
const PAGE: u32 = 100;

/// Which dead letters: by id, by event, by source, or all.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Chosen {
    /// Ids of dead letters, as `events show` prints them
    #[arg(value_name = "ID", value_parser = letter_id, conflicts_with_all = ["event_id", "source", "all"])]
    ids: Vec<Uuid>,
    /// Those of this event
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    event_id: Option<String>,
    /// Those of this source
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    source: Option<String>,
    /// All of them
    #[arg(long)]
    all: bool,
}

impl Chosen {
    /// Whether they are named by their ids or their event's, not by where they came from.
    pub(super) fn names_them(&self) -> bool {
        !self.ids.is_empty() || self.event_id.is_some()
    }

    /// Reads them a page at a time, oldest first. Those that die from now on are left out: a retry
    /// that fails again must not come round for ever. Ids grow with time.
    pub(super) fn pages(&self) -> Pages {
        Pages { named: 0, after: None, until: clock::new_id(), done: false }
    }
}

impl Selection for Chosen {
    const CALLED: &'static str = "dead letter(s)";
    type Place = Pages;

    async fn count(&self, store: &dyn Store) -> Result<u64, Failure> {
        let mut count = 0;
        let mut pages = self.pages();
        while let Some(page) = pages.next(self, store).await? {
            count += page.len() as u64;
        }
        match &self.event_id {
            Some(event_id) if count == 0 => Err(Failure::new(format!(
                "no dead letter is of an event {event_id:?}; `hooklatch events show` says what became of it"
            ))),
            _ => Ok(count),
        }
    }

    async fn page(
        &self,
        store: &dyn Store,
        after: Option<Pages>,
    ) -> Result<Option<(Vec<Uuid>, Pages)>, Failure> {
        let mut pages = after.unwrap_or_else(|| self.pages());
        let page = pages.next(self, store).await?;
        Ok(page.map(|page| (page.iter().map(|letter| letter.id).collect(), pages)))
    }
}

fn letter_id(text: &str) -> Result<Uuid, String> {
    selection::id(
        text,
        "`hooklatch events show` prints those of dead letters. For the id of an event, write --event-id",
    )
}

/// How far the dead letters that were chosen have been read.
pub(super) struct Pages {
    /// Of the ids that were named.
    named: usize,
    after: Option<Uuid>,
    until: Uuid,
    done: bool,
}

impl Pages {
    /// The next page; `None` after the last.
    pub(super) async fn next(
        &mut self,
        chosen: &Chosen,
        store: &dyn Store,
    ) -> Result<Option<Vec<DeadLetter>>, Failure> {
        if !chosen.ids.is_empty() {
            let Some(id) = chosen.ids.get(self.named) else { return Ok(None) };
            self.named += 1;
            let filter = DeadLetterFilter { id: Some(*id), limit: 1, ..DeadLetterFilter::default() };
            let found = store.dead_letters(&filter).await?;
            if found.is_empty() {
                return Err(Failure::new(format!(
                    "there is no dead letter {id}; `hooklatch events list --outcome rejected` shows what was refused"
                )));
            }
            return Ok(Some(found));
        }
        if self.done {
            return Ok(None);
        }
        let mut page = self.read(chosen, store).await?;
        let read = page.len();
        page.retain(|letter| letter.id < self.until);
        self.done = page.len() < PAGE as usize || page.len() < read;
        self.after = page.last().map(|letter| letter.id).or(self.after);
        Ok(Some(page).filter(|page| !page.is_empty()))
    }

    async fn read(&self, chosen: &Chosen, store: &dyn Store) -> Result<Vec<DeadLetter>, StoreError> {
        let filter = DeadLetterFilter {
            source: chosen.source.clone(),
            event_id: chosen.event_id.clone(),
            id: None,
            after: self.after,
            limit: PAGE,
        };
        store.dead_letters(&filter).await
    }
}
