//! The load harness: measures hooklatch against the same job done the plain way.
//!
//!     cargo run --release --manifest-path benches/load/Cargo.toml -- run
//!     cargo run --release --manifest-path benches/load/Cargo.toml -- relay
//!
//! `run` starts everything it needs, measures every target in interleaved rounds, checks that
//! every acknowledged event took effect once, and ends everything it started. `relay` does the same for
//! the way out: the relay of the outbox.

mod generator;
mod machine;
mod pgbench;
mod plain;
mod plan;
mod process;
mod procfs;
mod relay;
mod report;
mod run;
mod store;
mod target;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about, version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures, prints the table with ratios, writes results/latest.json.
    Run(plan::RunOptions),
    /// Measures the relay of the outbox, writes results/relay.json.
    Relay(relay::RelayOptions),
    /// The plain relay, as `relay` starts it.
    #[command(hide = true)]
    PlainRelay,
    /// The plain peer, as `run` starts it.
    #[command(hide = true)]
    Plain(plain::PlainOptions),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Relay(options) => relay::run(&options),
        Command::PlainRelay => relay::plain::relay().map(|()| ExitCode::SUCCESS),
        Command::Plain(options) => plain::serve(&options).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
