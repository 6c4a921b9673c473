//! The receiver of the story: this program's own `serve`, as a process that can be killed.
//!
//! Relaying is left to a process beside it (`relay.rs`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::process::{Printed, Process};
use super::site::Site;
use super::{Addresses, PlaygroundError};

const SERVE: [&str; 3] = ["serve", "--roles", "receive,prune"];
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A running receiver. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Receiver {
    program: PathBuf,
    site: Site,
    wanted: Wanted,
    /// Where it listens now.
    pub(super) addresses: Addresses,
    process: Process,
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
        let (process, addresses) = start_on_either(program, site, wanted).await?;
        Ok(Self { program: program.to_owned(), site: site.clone(), wanted, addresses, process })
    }

    /// `kill -9`, at once.
    pub(super) async fn kill(&mut self) -> Result<(), PlaygroundError> {
        self.process.kill().await
    }

    /// Starts it again on the same files, and on the same addresses unless somebody has taken them.
    pub(super) async fn restart(&mut self) -> Result<(), PlaygroundError> {
        let wanted = Wanted { first: self.addresses, otherwise: self.wanted.otherwise };
        (self.process, self.addresses) = start_on_either(&self.program, &self.site, wanted).await?;
        Ok(())
    }

    /// Returns when the process has ended by itself.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.ended().await
    }

    /// Stops it in order.
    pub(super) async fn stop(self) -> Result<(), PlaygroundError> {
        self.process.stop().await
    }
}

async fn start_on_either(
    program: &Path,
    site: &Site,
    wanted: Wanted,
) -> Result<(Process, Addresses), PlaygroundError> {
    let (process, addresses) = match start_on(program, site, wanted.first).await {
        Err(PlaygroundError::NotReady { .. }) => start_on(program, site, wanted.otherwise).await?,
        started => started?,
    };
    // For a restart, and for who reads the configuration: the ports that are really used.
    site.write_config(addresses).map_err(PlaygroundError::Files)?;
    Ok((process, addresses))
}

async fn start_on(
    program: &Path,
    site: &Site,
    addresses: Addresses,
) -> Result<(Process, Addresses), PlaygroundError> {
    site.write_config(addresses).map_err(PlaygroundError::Files)?;
    spawn(program, &site.config(), &site.log()).await
}

/// Starts the process and waits until it is ready to take deliveries.
async fn spawn(program: &Path, config: &Path, log: &Path) -> Result<(Process, Addresses), PlaygroundError> {
    let mut process = Process::start(program, &SERVE, config, log).map_err(PlaygroundError::Process)?;
    let ready = async {
        let Printed { public, admin } = process.printed().await?;
        let addresses = Addresses { public: public?, admin };
        is_ready(addresses.public).await.then_some(addresses)
    };
    match timeout(STARTS_WITHIN, ready).await {
        Ok(Some(addresses)) => Ok((process, addresses)),
        Ok(None) | Err(_) => Err(process.not_ready()),
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
