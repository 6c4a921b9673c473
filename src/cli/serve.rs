//! `hooklatch serve`: takes deliveries until a signal.

use std::io::Write as _;

use clap::Args;

use crate::app::{App, Role};
use crate::clock::Clock;
use crate::config::LogFormat;
use crate::lifecycle::{self, Addresses};
use crate::telemetry::subscriber;

use super::Failure;
use super::config_file::ConfigFile;

/// Take deliveries and apply them, until SIGTERM or SIGINT.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    file: ConfigFile,
    /// What this process does; several processes may share the roles
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["receive", "relay", "prune"])]
    roles: Vec<Role>,
}

impl Serve {
    pub(super) async fn run(self) -> Result<(), Failure> {
        serve(&self.file, &self.roles).await
    }
}

/// Runs a process in these roles.
pub(super) async fn serve(file: &ConfigFile, roles: &[Role]) -> Result<(), Failure> {
    let origin = file.origin();
    let config = origin.load()?;
    let sources = config.run_time_sources();
    let format = match config.log.format {
        LogFormat::Pretty => subscriber::LogFormat::Pretty,
        LogFormat::Json => subscriber::LogFormat::Json,
    };
    subscriber::install(format, &config.log.level).map_err(|error| Failure::new(error.to_string()))?;
    for warning in &config.warnings {
        tracing::warn!(config.key = warning.key, config.place = %warning.place, "{}", warning.message);
    }
    if sources.is_empty() && roles.contains(&Role::Receive) {
        tracing::warn!("no [[source]] is configured: every delivery is answered 404");
    }
    if config.destinations.is_empty() && !roles.contains(&Role::Receive) && roles.contains(&Role::Relay) {
        tracing::warn!("no [[destination]] is configured: no message is delivered");
    }
    let app = App::build(&config, sources, roles, Clock::system()).await?.reloading(origin, config);
    Ok(lifecycle::run(app, print_addresses).await?)
}

/// Tells people and scripts where the process listens: port 0 is a free one.
fn print_addresses(addresses: Addresses) {
    let mut out = std::io::stdout().lock();
    let public = addresses.public.map(|address| format!("public {address}\n")).unwrap_or_default();
    // Nobody may be reading; the log goes on.
    let _unheard = writeln!(out, "{public}admin {}", addresses.admin).and_then(|()| out.flush());
}
