//! The receiver of the story: this program's own `serve`, as a process that can be killed.
//!
//! It is a process and not a task because a kill has to be real: no destructor runs, no buffer is
//! flushed, nothing is rolled back but by the database's own recovery.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::PlaygroundError;

const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// Longer than the receiver's own grace for requests that have begun.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Lines of the log that an error shows.
const LOG_LINES: usize = 12;

/// A running receiver. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Receiver {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    pub(super) public: SocketAddr,
    child: Child,
}

impl Receiver {
    /// Starts the receiver and waits until it is ready.
    pub(super) async fn start(
        program: &Path,
        config: PathBuf,
        log: PathBuf,
        public: SocketAddr,
    ) -> Result<Self, PlaygroundError> {
        let child = spawn(program, &config, &log)?;
        let mut receiver = Self { program: program.to_owned(), config, log, public, child };
        receiver.wait_until_ready().await?;
        Ok(receiver)
    }

    /// `kill -9`, at once.
    pub(super) async fn kill(&mut self) -> Result<(), PlaygroundError> {
        self.child.kill().await.map_err(PlaygroundError::Process)
    }

    /// Starts it again, on the same files and addresses.
    pub(super) async fn restart(&mut self) -> Result<(), PlaygroundError> {
        self.child = spawn(&self.program, &self.config, &self.log)?;
        self.wait_until_ready().await
    }

    /// Returns when the process has ended by itself.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to stop in order; kills it if it does not. The database is whole in both cases.
    pub(super) async fn stop(mut self) -> Result<(), PlaygroundError> {
        if let Some(pid) = self.child.id() {
            let asked = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await;
            if asked.is_ok_and(|status| status.success())
                && let Ok(ended) = timeout(STOPS_WITHIN, self.child.wait()).await
            {
                ended.map_err(PlaygroundError::Process)?;
                return Ok(());
            }
        }
        self.kill().await
    }

    async fn wait_until_ready(&mut self) -> Result<(), PlaygroundError> {
        let url = format!("http://{}/readyz", self.public);
        let client = super::sender::client()?;
        let deadline = Instant::now() + STARTS_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait().map_err(PlaygroundError::Process)? {
                return Err(self.not_ready(format!("it ended with {status}")));
            }
            if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.not_ready(format!("it was not ready after {} s", STARTS_WITHIN.as_secs())));
            }
            sleep(POLL).await;
        }
    }

    fn not_ready(&self, what: String) -> PlaygroundError {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        PlaygroundError::NotReady { what, last }
    }
}

fn spawn(program: &Path, config: &Path, log: &Path) -> Result<Child, PlaygroundError> {
    let output = File::options().create(true).append(true).open(log).map_err(PlaygroundError::Process)?;
    let errors = output.try_clone().map_err(PlaygroundError::Process)?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config);
    command.stdin(Stdio::null()).stdout(output).stderr(errors).kill_on_drop(true);
    // What stands in the environment must not change the story.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOOKLATCH_") {
            command.env_remove(name);
        }
    }
    // Ctrl-C in the terminal then reaches only the playground, which stops the receiver in order.
    command.process_group(0);
    command.spawn().map_err(PlaygroundError::Process)
}

/// The address to listen on: `wanted` if the user named one, else the usual port, or any free one
/// when that is taken.
pub(super) fn choose_address(
    wanted: Option<SocketAddr>,
    usual_port: u16,
) -> Result<SocketAddr, PlaygroundError> {
    if let Some(address) = wanted {
        if !address.ip().is_loopback() {
            return Err(PlaygroundError::NotLoopback(address));
        }
        return free(address).map_err(|cause| PlaygroundError::AddressTaken { address, cause });
    }
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, usual_port));
    free(usual)
        .or_else(|_| free((Ipv4Addr::LOCALHOST, 0).into()))
        .map_err(|cause| PlaygroundError::AddressTaken { address: usual, cause })
}

fn free(address: SocketAddr) -> io::Result<SocketAddr> {
    TcpListener::bind(address)?.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_usual_port_gives_way_to_a_free_one() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("bound").port();
        let chosen = choose_address(None, port).expect("some port is free");
        assert_ne!(chosen.port(), port);
    }

    #[test]
    fn a_taken_port_that_the_user_named_is_an_error() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = taken.local_addr().expect("bound");
        assert!(matches!(choose_address(Some(address), 1), Err(PlaygroundError::AddressTaken { .. })));
    }

    #[test]
    fn the_playground_is_not_opened_to_other_machines() {
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        assert!(matches!(choose_address(Some(everywhere), 1), Err(PlaygroundError::NotLoopback(_))));
    }
}
