//! What Linux tells of processes: parents, processor time, peak memory.
//!
//! A process that has ended meanwhile is no error: it counts nothing.

use std::fs;
use std::time::Duration;

/// Fields of `/proc/PID/stat` after the command name, from 0.
const PARENT: usize = 1;
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const REAPED_USER_TICKS: usize = 13;
const REAPED_SYSTEM_TICKS: usize = 14;
/// Written to `clear_refs`, it starts the peak of resident memory anew.
const RESET_PEAK: &str = "5";

/// A process and everything below it.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, u32::try_from(*stat(pid)?.get(PARENT)?).ok()?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Processor time of a process, everything below it, and what the root has already reaped.
pub(crate) fn processor_time(root: u32) -> Duration {
    let ticks = |pid, fields: &[usize]| {
        let Some(stat) = stat(pid) else { return 0 };
        fields.iter().filter_map(|field| stat.get(*field)).sum::<u64>()
    };
    let mut total = ticks(root, &[REAPED_USER_TICKS, REAPED_SYSTEM_TICKS]);
    for pid in tree(root) {
        total += ticks(pid, &[USER_TICKS, SYSTEM_TICKS]);
    }
    Duration::from_secs_f64(total as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Peak resident memory of a process and everything below it, in bytes.
pub(crate) fn peak_memory(root: u32) -> u64 {
    tree(root).into_iter().filter_map(peak_of).sum()
}

/// Starts the peak anew, so that it belongs to what comes next.
pub(crate) fn reset_peak_memory(root: u32) {
    for pid in tree(root) {
        // Where the kernel refuses, the peak is that of the whole life.
        drop(fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK));
    }
}

fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kibibytes.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The numbers after the command name, which may hold spaces and brackets. The state, a letter,
/// reads as 0.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}
