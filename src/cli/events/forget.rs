//! `hooklatch events forget`: makes the next delivery of an event new again.
//!
//! For a sender's Redeliver button, when what the event did has been undone by hand.

use clap::Args;

use crate::event::EventKey;
use crate::inbox::TRUSTED_FOR;

use super::super::config_file::ConfigFile;
use super::super::failure::Failure;
use super::super::selection::confirm;
use super::super::workplace::Workplace;

const EXAMPLES: &str = "\
Examples:
  hooklatch events forget --source shop evt_1 --yes";

/// Forget that an event was processed: its next delivery is new and takes effect again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in super::super) struct Forget {
    #[command(flatten)]
    file: ConfigFile,
    /// The event's id, as the sender wrote it
    #[arg(value_name = "EVENT_ID")]
    event_id: String,
    /// The source whose event it is; needed when several know the id
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Do it
    #[arg(long)]
    yes: bool,
}

impl Forget {
    pub(super) async fn run(self) -> Result<(), Failure> {
        Workplace::visit(&self.file, async |place| self.forget(place).await).await
    }

    async fn forget(&self, place: &Workplace) -> Result<(), Failure> {
        let key = self.find(place).await?;
        confirm(self.yes, &format!("let the next delivery of {key} take effect again"))?;
        if place.store.forget_event(&key).await? {
            let seconds = TRUSTED_FOR.as_secs();
            eprintln!(
                "waiting {seconds} s: the processes that serve may have its answer in memory until then"
            );
            tokio::time::sleep(TRUSTED_FOR).await;
            say!("{key} is forgotten; ask the sender to deliver it again");
            Ok(())
        } else {
            Err(Failure::new(format!("{key} was not there any more")))
        }
    }

    async fn find(&self, place: &Workplace) -> Result<EventKey, Failure> {
        let consumers = match &self.source {
            Some(name) => vec![place.consumer_of(name)?],
            None => place.consumers(),
        };
        let mut found = place.store.events(&consumers, &self.event_id).await?;
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(Failure::new(format!(
                "no source has processed an event {:?}; its next delivery is new anyway",
                self.event_id
            ))),
            (Some(record), true) => Ok(record.key),
            (Some(_), false) => Err(Failure::usage(format!(
                "several sources have processed an event {:?}; say which with --source",
                self.event_id
            ))),
        }
    }
}
