//! `hooklatch events …`: what arrived, what became of it, and what an operator can do about it.

mod discard;
mod forget;
mod letters;
mod list;
mod refused;
mod retry;
mod show;

use clap::Subcommand;

use super::Failure;

/// Look at deliveries and events; retry, discard or forget them.
#[derive(Debug, Subcommand)]
pub(super) enum Events {
    List(list::List),
    Refused(refused::Refused),
    Show(show::Show),
    Retry(retry::Retry),
    Discard(discard::Discard),
    Forget(forget::Forget),
}

impl Events {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run().await,
            Self::Refused(refused) => refused.run().await,
            Self::Show(show) => show.run().await,
            Self::Retry(retry) => retry.run().await,
            Self::Discard(discard) => discard.run().await,
            Self::Forget(forget) => forget.run().await,
        }
    }
}
