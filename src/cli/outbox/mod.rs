//! `hooklatch outbox …`: the messages that go on, and what an operator can do about them.

mod chosen;
mod discard;
pub(super) mod list;
mod retry;
mod show;

use clap::Subcommand;

use super::Failure;

/// Look at the messages of the outbox; retry or discard them.
#[derive(Debug, Subcommand)]
pub(super) enum Outbox {
    List(list::List),
    Show(show::Show),
    Retry(retry::Retry),
    Discard(discard::Discard),
}

impl Outbox {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
            Self::Retry(retry) => retry.run().await,
            Self::Discard(discard) => discard.run().await,
        }
    }
}
