//! What a run of relays says: JSON rows, a table with ratios, the goals.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use comfy_table::presets::{ASCII_MARKDOWN, UTF8_FULL_CONDENSED};
use comfy_table::{CellAlignment, Table, TableStyle};
use serde::{Deserialize, Serialize};

use super::{Question, Relayer};
use crate::machine::Machine;
use crate::report::document;
use crate::report::goals::{self, Goal};
use crate::report::summary::median;
use crate::report::table::{mebibytes, milliseconds, thousands};

const OVER_PYTHON: f64 = 10.0;
const OVER_PLAIN_RUST: f64 = 4.0;
const IDLE_P50_MS: f64 = 10.0;
/// What a million messages for a dead destination may cost the live one.
const BESIDE_DEAD: f64 = 0.9;

/// One relay in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    pub(super) question: Question,
    pub(super) relayer: Relayer,
    pub(super) dead_rows: u64,
    pub(super) round: usize,
    pub(super) per_second: f64,
    /// From the commit to the arrival.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// Processor time a message, of the relay and of PostgreSQL.
    pub(super) relay_micros: f64,
    pub(super) database_micros: f64,
    pub(super) peak_memory_bytes: u64,
    pub(super) fault: Option<String>,
}

/// A whole run, as `results/relay.json` holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) measured_at: u64,
    pub(super) machine: Machine,
    pub(super) rounds: usize,
    pub(super) window: Duration,
    pub(super) dead_rows: u64,
    pub(super) measurements: Vec<Measurement>,
}

impl Measurement {
    /// A line of progress.
    pub(super) fn line(&self, rounds: usize) -> String {
        let fault = self.fault.as_ref().map(|fault| format!("  FAULT: {fault}")).unwrap_or_default();
        let latency = match (self.p50_ms, self.p99_ms) {
            (Some(p50), Some(p99)) => format!("p50 {} ms  p99 {} ms", milliseconds(p50), milliseconds(p99)),
            _ => format!(
                "{:>9}/s  relay {:.0} µs  PostgreSQL {:.0} µs",
                thousands(self.per_second),
                self.relay_micros,
                self.database_micros
            ),
        };
        format!(
            "{:10} {:16} round {}/{rounds}  dead {:>9}  {latency}{fault}",
            self.question.as_str(),
            self.relayer.as_str(),
            self.round + 1,
            thousands(self.dead_rows as f64),
        )
    }
}

/// Prints tables and goals, writes the JSON, and the document where that was asked for.
pub(super) fn publish(results: &Results, root: &Path, write_document: bool) -> Result<ExitCode> {
    let goals = judge(results);
    println!("\n{}\n{}", throughput(UTF8_FULL_CONDENSED, results), idle(UTF8_FULL_CONDENSED, results));
    println!("{}", goals::terminal(&goals));
    let directory = root.join("benches/load/results");
    fs::create_dir_all(&directory)?;
    let path = directory.join("relay.json");
    fs::write(&path, serde_json::to_string_pretty(results)?)?;
    println!("all rows: {}", path.display());
    if write_document {
        let text = format!(
            "{} {} rounds of {} s; load before the run {:.2}.\n\n{}\n\n{}\n\n{}",
            document::whereabouts(results.measured_at, &results.machine),
            results.rounds,
            results.window.as_secs_f64(),
            results.machine.load,
            goals::markdown(&goals),
            throughput(ASCII_MARKDOWN, results),
            idle(ASCII_MARKDOWN, results),
        );
        document::write(root, document::RELAY, &text)?;
    }
    let faults = results.measurements.iter().filter(|measurement| measurement.fault.is_some()).count();
    if faults > 0 {
        println!("{faults} measurements have a FAULT: their figures do not count");
    }
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn judge(results: &Results) -> Vec<Goal> {
    let own = (Question::Throughput, Relayer::Hooklatch, 0);
    let over = |relayer, what: &str, least: f64| {
        let ratio = results.ratio(own, (Question::Throughput, relayer, 0));
        Goal {
            text: format!("throughput, 64 in flight: at least {least} times {what}"),
            measured: ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.1}")),
            met: ratio.map(|ratio| ratio >= least),
        }
    };
    let idle = results.median((Question::Idle, Relayer::Hooklatch, 0), |m| m.p50_ms);
    let beside = results.ratio(
        (Question::Dead, Relayer::Hooklatch, results.dead_rows),
        (Question::Dead, Relayer::Hooklatch, 0),
    );
    vec![
        over(Relayer::Python, "the guide's in Python", OVER_PYTHON),
        over(Relayer::PlainRust, "the same in plain Rust", OVER_PLAIN_RUST),
        Goal {
            text: format!("idle, commit to arrival: median under {IDLE_P50_MS} ms"),
            measured: idle.map_or_else(|| "–".into(), |idle| format!("{} ms", milliseconds(idle))),
            met: idle.map(|idle| idle < IDLE_P50_MS),
        },
        Goal {
            text: format!(
                "beside {} unsent messages for a dead destination: at least {BESIDE_DEAD} of the throughput without",
                thousands(results.dead_rows as f64)
            ),
            measured: beside.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
            met: beside.map(|ratio| ratio >= BESIDE_DEAD),
        },
    ]
}

/// Who was asked what, with how many messages for a dead destination beside.
type Cell = (Question, Relayer, u64);

impl Results {
    fn of(&self, cell: Cell) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |m| (m.question, m.relayer, m.dead_rows) == cell)
    }

    fn median(&self, cell: Cell, value: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.of(cell).filter_map(value).collect();
        (!values.is_empty()).then(|| median(&mut values))
    }

    /// Throughput of one against another: the median of what each round says.
    fn ratio(&self, of: Cell, to: Cell) -> Option<f64> {
        let within = |m: &Measurement| {
            let other = self.of(to).find(|other| other.round == m.round)?;
            Some(m.per_second / other.per_second)
        };
        self.median(of, within)
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> =
            self.measurements.iter().map(|m| (m.question, m.relayer, m.dead_rows)).collect();
        cells.sort_unstable();
        cells.dedup();
        cells
    }
}

fn throughput(style: TableStyle, results: &Results) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header([
        "relay",
        "beside",
        "messages/s",
        "× plain",
        "relay µs",
        "PostgreSQL µs",
        "peak MiB",
    ]);
    for cell in results.cells().into_iter().filter(|(question, ..)| *question != Question::Idle) {
        let (question, relayer, dead_rows) = cell;
        let over = |value: fn(&Measurement) -> f64| results.median(cell, |m| Some(value(m))).unwrap_or(0.0);
        let plain = (Question::Throughput, Relayer::PlainRust, 0);
        let ratio = (question == Question::Throughput).then(|| results.ratio(cell, plain)).flatten();
        let faults = results.of(cell).any(|m| m.fault.is_some());
        table.add_row([
            format!("{}{}", relayer.as_str(), if faults { " FAULT" } else { "" }),
            match dead_rows {
                0 => "–".to_owned(),
                rows => format!("{} for a dead destination", thousands(rows as f64)),
            },
            thousands(over(|m| m.per_second)),
            ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
            format!("{:.0}", over(|m| m.relay_micros)),
            match relayer {
                Relayer::HooklatchSqlite => "–".to_owned(),
                _ => format!("{:.0}", over(|m| m.database_micros)),
            },
            mebibytes(results.of(cell).map(|m| m.peak_memory_bytes).max().unwrap_or(0)),
        ]);
    }
    align(&mut table, 2);
    table
}

fn idle(style: TableStyle, results: &Results) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header(["idle relay", "commit to arrival, p50 ms", "p99 ms"]);
    for cell in results.cells().into_iter().filter(|(question, ..)| *question == Question::Idle) {
        let at = |value: fn(&Measurement) -> Option<f64>| {
            results.median(cell, value).map_or_else(|| "–".into(), milliseconds)
        };
        table.add_row([cell.1.as_str().to_owned(), at(|m| m.p50_ms), at(|m| m.p99_ms)]);
    }
    align(&mut table, 1);
    table
}

/// Numbers to the right, from this column on.
fn align(table: &mut Table, numbers: usize) {
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
