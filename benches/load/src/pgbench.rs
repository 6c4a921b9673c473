//! pgbench doing the bare transaction: what PostgreSQL gives to as many clients without HTTP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use tokio::process::Command;

/// Beyond its time, what pgbench may take to connect and to end.
const GRACE: Duration = Duration::from_secs(30);
/// In a line of its transaction log: microseconds a transaction took.
const LOG_LATENCY_FIELD: usize = 2;
/// Threads: more do not help where there are two cores.
const MAX_THREADS: usize = 2;

/// A database, with the password apart: arguments can be seen by everyone on the machine.
pub(crate) struct Connection {
    pub(crate) url: String,
    pub(crate) password: String,
}

pub(crate) struct Pgbench {
    pub(crate) per_second: f64,
    /// Of every transaction, in microseconds.
    pub(crate) latencies: Histogram<u64>,
}

/// Runs `script` with `clients` for about `time`; whole seconds, at least one. Its log goes to
/// `scratch`.
pub(crate) async fn run(
    connection: &Connection,
    script: &Path,
    clients: usize,
    time: Duration,
    scratch: &Path,
) -> Result<Pgbench> {
    let directory = tempfile::tempdir_in(scratch)?;
    let seconds = (time.as_secs_f64().round() as u64).max(1);
    let clients_text = clients.to_string();
    let threads = clients.min(MAX_THREADS).to_string();
    let output = Command::new(program())
        .args(["--no-vacuum", "--protocol=prepared", "--log", "--client", &clients_text])
        .args(["--jobs", &threads, "--time", &seconds.to_string(), "--file"])
        .arg(script)
        .arg(format!("--log-prefix={}", directory.path().join("log").display()))
        .arg(&connection.url)
        .env("PGPASSWORD", &connection.password)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(seconds) + GRACE, output)
        .await
        .context("pgbench did not end in time")??;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut latencies = Histogram::new_with_bounds(1, GRACE.as_micros() as u64, 3)?;
    for entry in std::fs::read_dir(directory.path())? {
        let log = std::fs::read_to_string(entry?.path())?;
        for field in log.lines().filter_map(|line| line.split(' ').nth(LOG_LATENCY_FIELD)) {
            latencies.saturating_record(field.parse()?);
        }
    }
    Ok(Pgbench { per_second: transactions_per_second(&text)?, latencies })
}

/// Beside the server's programs, or in the search path.
fn program() -> PathBuf {
    std::env::var_os("HOOKLATCH_TEST_PG_BIN")
        .map(|directory| Path::new(&directory).join("pgbench"))
        .filter(|path| path.exists())
        .unwrap_or_else(|| "pgbench".into())
}

fn transactions_per_second(report: &str) -> Result<f64> {
    let line =
        report.lines().find_map(|line| line.strip_prefix("tps = ")).context("no transaction was done")?;
    Ok(line.split(' ').next().unwrap_or_default().parse()?)
}
