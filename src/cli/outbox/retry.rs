//! `hooklatch outbox retry`: tries messages again that were given up or wait.

use clap::Args;

use super::super::config_file::{ConfigFile, Workplace};
use super::super::failure::Failure;
use super::chosen::{Chosen, confirm};

/// Try messages again at once that were given up or wait for their next attempt. Their order stays.
#[derive(Debug, Args)]
pub(in super::super) struct Retry {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    chosen: Chosen,
    /// Do it; without, only the number is shown. Not needed for messages that are named
    #[arg(long)]
    yes: bool,
}

impl Retry {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let place = Workplace::open(&self.file).await?;
        let result = self.retry(&place).await;
        place.store.close().await;
        result
    }

    async fn retry(&self, place: &Workplace) -> Result<(), Failure> {
        let store = &*place.store;
        let count = self.chosen.count(store).await?;
        if count == 0 {
            println!("there are no such messages");
            return Ok(());
        }
        confirm(self.yes || self.chosen.names_them(), &format!("try {count} message(s) again"))?;
        let (mut after, mut revived) = (None, 0);
        while let Some((ids, next)) = self.chosen.page(store, after).await? {
            revived += store.revive_messages(&ids).await?;
            after = next;
        }
        println!(
            "{revived} of {count} message(s) are tried again; others wait for an earlier one or are on their way"
        );
        Ok(())
    }
}
