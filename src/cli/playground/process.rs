//! Processes of the story: this program's own subcommands, to be killed and stopped.
//!
//! They are processes and not tasks because a kill has to be real: no destructor runs, no buffer is
//! flushed, nothing is rolled back but by the database's own recovery.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::PlaygroundError;

/// Longer than any process's own grace for what it has begun.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// Lines of the log that an error shows.
const LOG_LINES: usize = 12;

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

/// Where a process says it listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed {
    /// `None`: it takes no deliveries.
    pub(super) public: Option<SocketAddr>,
    pub(super) admin: SocketAddr,
}

impl Process {
    /// Starts `program` with these arguments; what it says goes to `log`.
    pub(super) fn start(program: &Path, arguments: &[&str], config: &Path, log: &Path) -> io::Result<Self> {
        let errors = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).kill_on_drop(true);
        // What stands in the environment must not change the story.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOOKLATCH_") {
                command.env_remove(name);
            }
        }
        // Ctrl-C in the terminal then reaches only the playground, which stops the others in order.
        command.process_group(0);
        Ok(Self { child: command.spawn()?, log: log.to_owned() })
    }

    /// Waits for the addresses it prints; `None` when it ends without saying so. Asking the port alone
    /// would not tell this process from another that has it. The private one is printed last.
    pub(super) async fn printed(&mut self) -> Option<Printed> {
        let mut lines = BufReader::new(self.child.stdout.take()?).lines();
        let mut public = None;
        loop {
            let line = lines.next_line().await.ok()??;
            match line.split_once(" http://") {
                Some(("public", address)) => public = address.parse().ok(),
                Some(("admin", address)) => {
                    let printed = Printed { public, admin: address.parse().ok()? };
                    // Reads on: a full pipe would stop the process.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Some(printed);
                }
                _ => {}
            }
        }
    }

    /// Why it cannot be worked with: the last that it said.
    pub(super) fn not_ready(&self) -> PlaygroundError {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        PlaygroundError::NotReady { last: lines[lines.len().saturating_sub(LOG_LINES)..].join("\n") }
    }

    /// `kill -9`, at once.
    pub(super) async fn kill(&mut self) -> Result<(), PlaygroundError> {
        self.child.kill().await.map_err(PlaygroundError::Process)
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
}
