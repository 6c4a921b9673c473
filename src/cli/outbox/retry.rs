//! `hooklatch outbox retry`: tries messages again that were given up or wait.

use clap::Args;
use uuid::Uuid;

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::selection::{agreed, work_off};
use super::super::workplace::Workplace;
use super::chosen::Chosen;

const EXAMPLES: &str = "\
Examples:
  hooklatch outbox retry 01890a5d-ac96-774b-bcce-b302099a8057
  hooklatch outbox retry --destination crm --dead --yes";

/// Try messages again at once that were given up or wait for their next attempt. Their order stays.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
        Workplace::visit(&self.file, async |place| self.retry(place).await).await
    }

    async fn retry(&self, place: &Workplace) -> Result<(), Failure> {
        let store = &*place.store;
        let agrees = |_| self.yes || self.chosen.names_them();
        let agreed = agreed(&self.chosen, store, agrees, |all| format!("try {all} again"));
        let Some(count) = agreed.await? else { return Ok(()) };
        let revive = async |ids: &[Uuid]| -> Result<u64, Failure> { Ok(store.revive_messages(ids).await?) };
        let revived = work_off(&self.chosen, store, revive).await?;
        say!(
            "{revived} of {count} message(s) are tried again; others wait for an earlier one or are on their way"
        );
        Ok(())
    }
}
