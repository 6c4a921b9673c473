//! `hooklatch outbox discard`: deletes messages that were not sent.

use clap::Args;
use uuid::Uuid;

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::selection::{agreed, work_off};
use super::super::workplace::Workplace;
use super::chosen::Chosen;

const EXAMPLES: &str = "\
Examples:
  hooklatch outbox discard 01890a5d-ac96-774b-bcce-b302099a8057 --yes";

/// Delete messages that were not sent. Their bodies are gone then; what waited for them goes on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
        let agreed = agreed(&self.chosen, store, |_| self.yes, |all| format!("delete {all} for good"));
        let Some(count) = agreed.await? else { return Ok(()) };
        let discard = async |ids: &[Uuid]| -> Result<u64, Failure> { Ok(store.discard_messages(ids).await?) };
        let gone = work_off(&self.chosen, store, discard).await?;
        say!("{gone} of {count} message(s) discarded; others are on their way");
        Ok(())
    }
}
