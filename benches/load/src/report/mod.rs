//! From measurements to what a person reads: JSON rows, a table with ratios, the goals.
//!
//! Nothing is written by hand: `docs/performance.md` gets its tables from here.

pub(crate) mod document;
pub(crate) mod goals;
pub(crate) mod summary;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::plan::{Cell, Plan};
use summary::Summary;

/// One cell in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    #[serde(flatten)]
    pub(crate) cell: Cell,
    pub(crate) round: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Answers of the whole load, by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) unanswered: u64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) costs: Costs,
    /// What a correct target cannot have done.
    pub(crate) fault: Option<String>,
}

/// What one answer cost, on the average of the whole load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Costs {
    /// Processor time of the server, of PostgreSQL, of the generator.
    pub(crate) server_micros: f64,
    pub(crate) database_micros: f64,
    pub(crate) generator_micros: f64,
    /// Cores that the generator kept busy: near its threads, it is the limit, not the target.
    pub(crate) generator_busy: f64,
    /// Write-ahead log of PostgreSQL.
    pub(crate) log_bytes: f64,
}

/// A whole run, as `results/latest.json` holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Unix time.
    pub(crate) measured_at: u64,
    pub(crate) machine: Machine,
    pub(crate) plan: Plan,
    pub(crate) measurements: Vec<Measurement>,
    /// Targets that could not be started, or did not do the job.
    pub(crate) left_out: Vec<String>,
}

impl Measurement {
    /// A line of progress.
    pub(crate) fn line(&self, rounds: usize) -> String {
        let Cell { scenario, connections, target, poison_per_mille } = self.cell;
        let poison = if poison_per_mille > 0 { " with poison" } else { "" };
        let fault = self.fault.as_ref().map(|fault| format!("  FAULT: {fault}")).unwrap_or_default();
        format!(
            "{:13} {connections:4} connections  round {}/{rounds}  {:18} {:>9}/s  p50 {:>8} ms  p99 {:>8} ms{poison}{fault}",
            scenario.as_str(),
            self.round + 1,
            target.as_str(),
            table::thousands(self.per_second),
            table::milliseconds(self.p50_ms),
            table::milliseconds(self.p99_ms),
        )
    }
}

/// Prints the tables, writes the JSON, and the document where that was asked for. Fails if a
/// target is missing or did what a correct one cannot have done.
pub(crate) fn publish(results: &Results, root: &Path, write_document: bool) -> Result<ExitCode> {
    let summary = Summary::of(results);
    println!("{}", table::terminal(&summary, results.plan.large_rows));
    println!("{}", goals::terminal(&goals::judge(&summary)));

    let directory = root.join("benches/load/results");
    fs::create_dir_all(&directory)?;
    let path = directory.join("latest.json");
    fs::write(&path, serde_json::to_string_pretty(results)?)?;
    println!("all rows: {}", path.display());

    if write_document {
        document::write(root, document::RECEIVER, &document::render(results, &summary))?;
    }
    let faults = results.measurements.iter().filter(|measurement| measurement.fault.is_some()).count();
    if faults > 0 {
        println!("{faults} measurements have a FAULT: their figures do not count");
    }
    for missing in &results.left_out {
        println!("left out: {missing}");
    }
    let sound = faults == 0 && results.left_out.is_empty();
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
