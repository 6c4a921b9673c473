//! `hooklatch events discard`: removes dead letters without applying them.

use clap::Args;

use super::super::config_file::{ConfigFile, Workplace};
use super::super::failure::Failure;
use super::letters::{Chosen, confirm};

/// Remove dead letters without applying them. Their bodies are gone then.
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
            println!("there are no such dead letters");
            return Ok(());
        }
        confirm(self.yes, &format!("remove {count} dead letter(s) for good"))?;
        let mut gone = 0;
        let mut pages = self.chosen.pages();
        while let Some(page) = pages.next(store).await? {
            let ids: Vec<_> = page.iter().map(|letter| letter.id).collect();
            gone += store.discard_dead_letters(&ids).await?;
        }
        println!("{gone} dead letter(s) discarded");
        Ok(())
    }
}
