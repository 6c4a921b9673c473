//! `hooklatch outbox discard`: deletes messages that were not sent.

use clap::Args;

use super::super::config_file::{ConfigFile, Workplace};
use super::super::failure::Failure;
use super::chosen::{Chosen, confirm};

/// Delete messages that were not sent. Their bodies are gone then; what waited for them goes on.
#[derive(Debug, Args)]
pub(in super::super) struct Discard {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    chosen: Chosen,
    /// Do it; without, only the number is shown
    #[arg(long)]
    yes: bool,
}

impl Discard {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let place = Workplace::open(&self.file).await?;
        let result = self.discard(&place).await;
        place.store.close().await;
        result
    }

    async fn discard(&self, place: &Workplace) -> Result<(), Failure> {
        let store = &*place.store;
        let count = self.chosen.count(store).await?;
        if count == 0 {
            println!("there are no such messages");
            return Ok(());
        }
        confirm(self.yes, &format!("delete {count} message(s) for good"))?;
        let (mut after, mut gone) = (None, 0);
        while let Some((ids, next)) = self.chosen.page(store, after).await? {
            gone += store.discard_messages(&ids).await?;
            after = next;
        }
        println!("{gone} of {count} message(s) discarded; others are on their way");
        Ok(())
    }
}
