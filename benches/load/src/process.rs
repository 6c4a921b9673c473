//! A server under test as a process: started, waited for, observed, always ended.
//!
//! Each has a process group of its own, so that nothing it starts outlives it. Knows nothing of
//! what the server does.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::generator::AnswerReader;
use crate::procfs;

/// How long a server may take to say that it is ready.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to stop when asked.
const STOP_LIMIT: Duration = Duration::from_secs(5);
const POLL_EVERY: Duration = Duration::from_millis(30);
const READY: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// Of a log, what an error message shows.
const LOG_TAIL_LINES: usize = 15;

#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    log: PathBuf,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    /// Starts a server and waits until `GET /readyz` says 200. Its output goes to `log`.
    pub(crate) async fn start(command: Command, address: SocketAddr, log: &Path) -> Result<Self> {
        let mut server = Self::spawn(command, address, log)?;
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// Starts a process that takes no requests at `address`, or is not waited for.
    pub(crate) fn spawn(mut command: Command, address: SocketAddr, log: &Path) -> Result<Self> {
        let output = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned(), address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn processor_time(&self) -> Duration {
        procfs::processor_time(self.pid())
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}:\n{}", log_tail(&self.log));
            }
            if matches!(timeout(START_LIMIT, is_ready(self.address)).await, Ok(Ok(true))) {
                return Ok(());
            }
            sleep(POLL_EVERY).await;
        }
        bail!("it was not ready after {} s:\n{}", START_LIMIT.as_secs(), log_tail(&self.log));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        if matches!(self.child.try_wait(), Ok(None)) {
            kill_process(pid, Signal::TERM).ok();
            let asked = Instant::now();
            while asked.elapsed() < STOP_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(POLL_EVERY);
            }
        }
        // Whatever is left of the group, this process included.
        kill_process_group(pid, Signal::KILL).ok();
        drop(self.child.wait());
    }
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The end of a log, for an error message.
pub(crate) fn log_tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

async fn is_ready(address: SocketAddr) -> Result<bool> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(READY).await?;
    Ok(AnswerReader::default().read(&mut socket).await?.status == 200)
}
