//! `hooklatch events discard`: removes dead letters without applying them.

use clap::Args;
use uuid::Uuid;

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::selection::{agreed, work_off};
use super::super::workplace::Workplace;
use super::letters::Chosen;

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
        Workplace::visit(&self.file, async |place| self.discard(place).await).await
    }

    async fn discard(&self, place: &Workplace) -> Result<(), Failure> {
        let store = &*place.store;
        let agreed = agreed(&self.chosen, store, |_| self.yes, |all| format!("remove {all} for good"));
        if agreed.await?.is_none() {
            return Ok(());
        }
        let discard =
            async |ids: &[Uuid]| -> Result<u64, Failure> { Ok(store.discard_dead_letters(ids).await?) };
        let gone = work_off(&self.chosen, store, discard).await?;
        say!("{gone} dead letter(s) discarded");
        Ok(())
    }
}
