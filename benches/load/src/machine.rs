//! The machine a run happened on, and whether it was fit to measure on.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// A write of this size, made durable, is what a commit waits for.
const SYNC_PROBE_BYTES: usize = 8192;
const SYNC_PROBES: usize = 200;
/// Somebody else is working above this.
const QUIET_LOAD: f64 = 0.5;
/// Sockets of the generator, and then some.
const OPEN_FILES: u64 = 4096;
const TMPFS_MAGIC: i64 = 0x0102_1994;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// Median time of a small durable write where the databases are.
    pub(crate) sync_micros: u64,
    /// Average of the last minute before the run.
    pub(crate) load: f64,
    /// Set once the cluster has told it.
    pub(crate) postgres: Option<String>,
}

impl Machine {
    /// Looks at this machine; `data` is where the databases will be.
    pub(crate) fn look(data: &Path) -> Result<Self> {
        Ok(Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: field("/proc/meminfo", "MemTotal")
                .and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok())
                .map_or(0, |kibibytes| kibibytes.div_ceil(1 << 20)),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            sync_micros: u64::try_from(median_sync(data)?.as_micros())?,
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| text.split(' ').next()?.parse().ok())
                .unwrap_or(0.0),
            postgres: None,
        })
    }

    /// Why figures from this machine would mislead.
    pub(crate) fn doubts(&self, data: &Path) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.load > QUIET_LOAD {
            doubts.push(format!("somebody else works here: load {:.2} before the run", self.load));
        }
        if rustix::fs::statfs(data).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC) {
            doubts.push(format!("{} is in memory, commits cost nothing there: set TMPDIR", data.display()));
        }
        doubts
    }
}

/// Raises the limit of open files to what the generator needs, as far as it may.
pub(crate) fn allow_many_sockets() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < OPEN_FILES) {
        let current = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?;
    }
    Ok(())
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn median_sync(directory: &Path) -> Result<Duration> {
    let path = directory.join("sync-probe");
    let mut file = File::create(&path)?;
    let mut times = Vec::with_capacity(SYNC_PROBES);
    for _ in 0..SYNC_PROBES {
        let started = Instant::now();
        file.write_all(&[0; SYNC_PROBE_BYTES])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    fs::remove_file(path)?;
    times.sort_unstable();
    Ok(times[SYNC_PROBES / 2])
}
