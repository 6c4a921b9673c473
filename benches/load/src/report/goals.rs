//! What hooklatch holds itself to, and whether this run met it.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_FULL_CONDENSED};
use comfy_table::{Table, TableStyle};

use crate::plan::{Cell, Scenario};
use crate::target::Target;

use super::summary::{Row, Summary};
use super::table;

/// Throughput against the plain way.
const NEW_AT_256: f64 = 5.0;
const NEW_AT_64: f64 = 3.5;
const LARGE_AT_64: f64 = 2.5;
const REPLAY: f64 = 6.0;
const SQLITE: f64 = 3.0;
/// A hundredth of refused events may cost a quarter.
const WITH_POISON: f64 = 0.75;
const MEMORY_BYTES: u64 = 150 * 1_000_000;

/// A goal with what was measured. `met` is `None` where the run did not measure it.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) text: String,
    pub(crate) measured: String,
    pub(crate) met: Option<bool>,
}

pub(super) fn judge(summary: &Summary) -> Vec<Goal> {
    let own = |scenario, connections, target| summary.find(scenario, connections, target, 0);
    let new = |connections| own(Scenario::New, connections, Target::Hooklatch);
    vec![
        throughput("new events, 256 connections", NEW_AT_256, new(256)),
        throughput("new events, 64 connections", NEW_AT_64, new(64)),
        latency("p99 of new events, 256 connections", new(256), summary, |row| row.p99_ms),
        latency("p99 of new events, 64 connections", new(64), summary, |row| row.p99_ms),
        latency("p50 of new events, one connection alone", new(1), summary, |row| row.p50_ms),
        throughput(
            "new events into large tables, 64 connections",
            LARGE_AT_64,
            own(Scenario::Large, 64, Target::Hooklatch),
        ),
        throughput("replays, 64 connections", REPLAY, own(Scenario::Replay, 64, Target::Hooklatch)),
        throughput("replays, 256 connections", REPLAY, own(Scenario::Replay, 256, Target::Hooklatch)),
        throughput(
            "new events on SQLite, 64 connections",
            SQLITE,
            own(Scenario::SqliteNew, 64, Target::HooklatchSqlite),
        ),
        throughput(
            "new events on SQLite, 256 connections",
            SQLITE,
            own(Scenario::SqliteNew, 256, Target::HooklatchSqlite),
        ),
        poison(64, summary),
        poison(256, summary),
        memory(summary),
    ]
}

pub(crate) fn terminal(goals: &[Goal]) -> String {
    format!("\nGoals\n{}\n", filled(UTF8_FULL_CONDENSED, goals))
}

pub(crate) fn markdown(goals: &[Goal]) -> String {
    filled(ASCII_MARKDOWN, goals).to_string()
}

fn filled(style: TableStyle, goals: &[Goal]) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header(["goal", "measured", ""]);
    for goal in goals {
        let verdict = match goal.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        table.add_row([goal.text.as_str(), goal.measured.as_str(), verdict]);
    }
    table
}

fn throughput(what: &str, least: f64, row: Option<&Row>) -> Goal {
    let ratio = row.and_then(|row| row.ratio);
    Goal {
        text: format!("{what}: at least {least} times the plain way"),
        measured: table::ratio(ratio),
        met: ratio.map(|ratio| ratio >= least),
    }
}

fn latency(what: &str, row: Option<&Row>, summary: &Summary, value: fn(&Row) -> f64) -> Goal {
    let pair = row.and_then(|row| Some((value(row), value(summary.baseline(row.cell)?))));
    Goal {
        text: format!("{what}: not above the plain way's"),
        measured: pair.map_or_else(
            || "–".into(),
            |(own, plain)| {
                format!("{} ms against {} ms", table::milliseconds(own), table::milliseconds(plain))
            },
        ),
        met: pair.map(|(own, plain)| own <= plain),
    }
}

fn poison(connections: usize, summary: &Summary) -> Goal {
    let ratio = summary
        .rows
        .iter()
        .find(|row| {
            let Cell { scenario, target, poison_per_mille, .. } = row.cell;
            row.cell.connections == connections
                && scenario == Scenario::Poison
                && target == Target::Hooklatch
                && poison_per_mille > 0
        })
        .and_then(|row| row.ratio_to_clean);
    Goal {
        text: format!(
            "1 % refused events, {connections} connections: at least {WITH_POISON} of the throughput without"
        ),
        measured: table::ratio(ratio),
        met: ratio.map(|ratio| ratio >= WITH_POISON),
    }
}

fn memory(summary: &Summary) -> Goal {
    let peak = summary
        .rows
        .iter()
        .filter(|row| row.cell.target.is_hooklatch())
        .map(|row| row.peak_memory_bytes)
        .max();
    Goal {
        text: "peak memory in any cell: under 150 MB".into(),
        measured: peak.map_or_else(|| "–".into(), |bytes| format!("{} MB", bytes / 1_000_000)),
        met: peak.map(|bytes| bytes < MEMORY_BYTES),
    }
}
