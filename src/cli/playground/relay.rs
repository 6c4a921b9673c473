//! The relay of the story: `hooklatch relay` on the receiver's database, a process of its own.
//!
//! It runs beside the receiver so that each can be killed without the other.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::timeout;

use super::PlaygroundError;
use super::process::Process;
use super::site::Site;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// A relay that runs, or does not run at the moment.
#[derive(Debug)]
pub(super) struct Relay {
    program: PathBuf,
    site: Site,
    process: Option<Process>,
}

impl Relay {
    /// One that has not been started.
    pub(super) fn new(program: &Path, site: &Site) -> Self {
        Self { program: program.to_owned(), site: site.clone(), process: None }
    }

    /// Starts it, and waits until it works.
    pub(super) async fn start(&mut self) -> Result<(), PlaygroundError> {
        let (config, log) = (self.site.relay_config(), self.site.relay_log());
        self.site.write_relay_config().map_err(PlaygroundError::Files)?;
        let mut process =
            Process::start(&self.program, &["relay"], &config, &log).map_err(PlaygroundError::Process)?;
        match timeout(STARTS_WITHIN, process.printed()).await {
            Ok(Some(_)) => {
                self.process = Some(process);
                Ok(())
            }
            Ok(None) | Err(_) => Err(process.not_ready()),
        }
    }

    /// `kill -9`, at once.
    pub(super) async fn kill(&mut self) -> Result<(), PlaygroundError> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Returns when the process has ended by itself.
    pub(super) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        match &mut self.process {
            Some(process) => process.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Stops it in order.
    pub(super) async fn stop(self) -> Result<(), PlaygroundError> {
        match self.process {
            Some(process) => process.stop().await,
            None => Ok(()),
        }
    }
}
