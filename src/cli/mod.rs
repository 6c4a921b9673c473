//! The command line: one file a subcommand, each thin.
//!
//! What people read goes to standard output, failures and the log go to standard error. Exit codes:
//! 0 success, 1 failure, 2 usage or configuration. `--json` is for scripts.

/// `println!` for the subcommands ([`output`]).
macro_rules! say {
    ($($words:tt)*) => {
        $crate::cli::output::line(format_args!($($words)*))
    };
}

mod check;
mod config_file;
mod destinations;
mod events;
mod explain;
mod failure;
mod migrate;
mod openapi;
mod outbox;
mod output;
mod playground;
mod prune;
mod relay;
mod secret;
mod selection;
mod send;
mod serve;
mod table;
mod workplace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use failure::Failure;

/// Receives webhooks so that each event takes effect exactly once.
#[derive(Debug, Parser)]
#[command(name = "hooklatch", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Playground(playground::Playground),
    Serve(serve::Serve),
    Relay(relay::Relay),
    Migrate(migrate::Migrate),
    Check(check::Check),
    Prune(prune::Prune),
    Send(send::Send),
    Explain(explain::Explain),
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    #[command(subcommand)]
    Events(events::Events),
    #[command(subcommand)]
    Outbox(outbox::Outbox),
    #[command(subcommand)]
    Destinations(destinations::Destinations),
    Openapi(openapi::Openapi),
}

/// Runs the program with the arguments of the process.
///
/// The runtime is made here and not in `main`: whoever polls a future compiles it, and what the library
/// compiles need not be compiled again for the program.
#[tokio::main]
pub async fn main() -> ExitCode {
    let command = Cli::parse().command;
    // Each future is as large as what it runs; boxed, none burdens the others.
    let outcome = match command {
        Command::Playground(playground) => Box::pin(playground.run()).await,
        Command::Serve(serve) => Box::pin(serve.run()).await,
        Command::Relay(relay) => Box::pin(relay.run()).await,
        Command::Migrate(migrate) => Box::pin(migrate.run()).await,
        Command::Check(check) => Box::pin(check.run()).await,
        Command::Prune(prune) => Box::pin(prune.run()).await,
        Command::Send(send) => Box::pin(send.run()).await,
        Command::Explain(explain) => Box::pin(explain.run()).await,
        Command::Secret(secret) => secret.run(),
        Command::Events(events) => Box::pin(events.run()).await,
        Command::Outbox(outbox) => Box::pin(outbox.run()).await,
        Command::Destinations(destinations) => Box::pin(destinations.run()).await,
        Command::Openapi(openapi) => openapi.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}
