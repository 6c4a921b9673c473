//! `hooklatch relay`: delivers the messages of an outbox that others write, until a signal.

use clap::Args;

use crate::app::Role;

use super::Failure;
use super::config_file::ConfigFile;
use super::serve::serve;

/// Deliver the messages of the outbox, and delete those sent long ago, until SIGTERM or SIGINT.
///
/// The same as `serve --roles relay,prune`: for a sender that receives nothing.
#[derive(Debug, Args)]
pub(super) struct Relay {
    #[command(flatten)]
    file: ConfigFile,
}

impl Relay {
    pub(super) async fn run(self) -> Result<(), Failure> {
        serve(&self.file, &[Role::Relay, Role::Prune]).await
    }
}
