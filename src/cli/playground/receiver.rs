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

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::site::Site;
use super::{Addresses, PlaygroundError};

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
    site: Site,
    wanted: Wanted,
    /// Where it listens now.
    pub(super) addresses: Addresses,
    child: Child,
}

/// Where the receiver should listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) first: Addresses,
    /// When somebody else has those.
    pub(super) otherwise: Addresses,
}

impl Receiver {
    /// Starts the receiver and waits until it is ready.
    pub(super) async fn start(program: &Path, site: &Site, wanted: Wanted) -> Result<Self, PlaygroundError> {
        let (child, addresses) = start_on_either(program, site, wanted).await?;
        Ok(Self { program: program.to_owned(), site: site.clone(), wanted, addresses, child })
    }

    /// `kill -9`, at once.
    pub(super) async fn kill(&mut self) -> Result<(), PlaygroundError> {
        self.child.kill().await.map_err(PlaygroundError::Process)
    }

    /// Starts it again on the same files, and on the same addresses unless somebody has taken them.
    pub(super) async fn restart(&mut self) -> Result<(), PlaygroundError> {
        let wanted = Wanted { first: self.addresses, otherwise: self.wanted.otherwise };
        (self.child, self.addresses) = start_on_either(&self.program, &self.site, wanted).await?;
        Ok(())
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

async fn start_on_either(
    program: &Path,
    site: &Site,
    wanted: Wanted,
) -> Result<(Child, Addresses), PlaygroundError> {
    let (child, addresses) = match start_on(program, site, wanted.first).await {
        Err(PlaygroundError::NotReady { .. }) => start_on(program, site, wanted.otherwise).await?,
        started => started?,
    };
    // For a restart, and for who reads the configuration: the ports that are really used.
    site.write_config(addresses).map_err(PlaygroundError::Files)?;
    Ok((child, addresses))
}

async fn start_on(
    program: &Path,
    site: &Site,
    addresses: Addresses,
) -> Result<(Child, Addresses), PlaygroundError> {
    site.write_config(addresses).map_err(PlaygroundError::Files)?;
    spawn(program, &site.config(), &site.log()).await
}

/// Starts the process and waits until it is ready to take deliveries.
async fn spawn(program: &Path, config: &Path, log: &Path) -> Result<(Child, Addresses), PlaygroundError> {
    let errors = File::options().create(true).append(true).open(log).map_err(PlaygroundError::Process)?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).kill_on_drop(true);
    // What stands in the environment must not change the story.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOOKLATCH_") {
            command.env_remove(name);
        }
    }
    // Ctrl-C in the terminal then reaches only the playground, which stops the receiver in order.
    command.process_group(0);
    let mut child = command.spawn().map_err(PlaygroundError::Process)?;
    let not_ready = || PlaygroundError::NotReady { last: last_lines(log) };
    let ready = async {
        let addresses = printed_addresses(&mut child).await?;
        is_ready(addresses.public).await.then_some(addresses)
    };
    match timeout(STARTS_WITHIN, ready).await {
        Ok(Some(addresses)) => Ok((child, addresses)),
        Ok(None) | Err(_) => Err(not_ready()),
    }
}

/// Where the process says it listens; `None` when it ends without saying so. Asking the port alone
/// would not tell this process from another that has it.
async fn printed_addresses(child: &mut Child) -> Option<Addresses> {
    let mut lines = BufReader::new(child.stdout.take()?).lines();
    let (mut public, mut admin) = (None, None);
    loop {
        if let (Some(public), Some(admin)) = (public, admin) {
            // Reads on: a full pipe would stop the process.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Some(Addresses { public, admin });
        }
        let line = lines.next_line().await.ok()??;
        match line.split_once(" http://") {
            Some(("public", address)) => public = address.parse().ok(),
            Some(("admin", address)) => admin = address.parse().ok(),
            _ => {}
        }
    }
}

/// Waits for `/readyz`; false when it cannot be asked.
async fn is_ready(public: SocketAddr) -> bool {
    let Ok(client) = super::sender::client() else { return false };
    let url = format!("http://{public}/readyz");
    loop {
        match client.get(&url).send().await {
            Ok(answer) if answer.status().is_success() => return true,
            Ok(_) => sleep(POLL).await,
            Err(_) => return false,
        }
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// The address to ask for: `wanted` if the user named one, else the usual port, or any free one
/// (port 0) when that is taken.
pub(super) fn choose_address(
    wanted: Option<SocketAddr>,
    usual_port: u16,
) -> Result<SocketAddr, PlaygroundError> {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, usual_port));
    let address = wanted.unwrap_or(usual);
    if !address.ip().is_loopback() {
        return Err(PlaygroundError::NotLoopback(address));
    }
    match TcpListener::bind(address) {
        Ok(_) => Ok(address),
        Err(cause) if wanted.is_some() => Err(PlaygroundError::AddressTaken { address, cause }),
        Err(_) => Ok((Ipv4Addr::LOCALHOST, 0).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_usual_port_gives_way_to_a_free_one() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("bound").port();
        assert_eq!(choose_address(None, port).expect("loopback").port(), 0);
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
