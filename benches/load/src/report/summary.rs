//! The medians over rounds, and the ratios to the plain way.
//!
//! A ratio is taken within a round, where both sides saw the same machine, and its median over the
//! rounds is what counts. The plain way is whichever of its pools was best in that cell.

use crate::plan::{Cell, Scenario};
use crate::target::Target;

use super::{Costs, Measurement, Results};

/// A cell over all rounds.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cell: Cell,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) costs: Costs,
    /// The highest of any round.
    pub(super) peak_memory_bytes: u64,
    /// Throughput as a multiple of the plain way's.
    pub(super) ratio: Option<f64>,
    /// With refused events: throughput as a multiple of the same target's without.
    pub(super) ratio_to_clean: Option<f64>,
    pub(super) faults: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) rows: Vec<Row>,
}

impl Summary {
    pub(super) fn of(results: &Results) -> Self {
        let mut cells: Vec<Cell> = results.measurements.iter().map(|m| m.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        let all = &results.measurements;
        let mut rows: Vec<Row> = cells.iter().map(|cell| row(*cell, all)).collect();
        let plain: Vec<_> = rows.iter().map(|row| baseline(row.cell, &rows).map(|row| row.cell)).collect();
        for (row, plain) in rows.iter_mut().zip(plain) {
            row.ratio = plain.and_then(|plain| ratio(row.cell, plain, all));
            if row.cell.poison_per_mille > 0 {
                row.ratio_to_clean = ratio(row.cell, Cell { poison_per_mille: 0, ..row.cell }, all);
            }
        }
        Self { rows }
    }

    pub(super) fn find(
        &self,
        scenario: Scenario,
        connections: usize,
        target: Target,
        poison_per_mille: u32,
    ) -> Option<&Row> {
        let cell = Cell { scenario, connections, poison_per_mille, target };
        self.rows.iter().find(|row| row.cell == cell)
    }

    /// The best of the plain way in the surroundings of `cell`.
    pub(super) fn baseline(&self, cell: Cell) -> Option<&Row> {
        baseline(cell, &self.rows)
    }
}

/// The ratio between two cells: the median of what each round says.
fn ratio(of: Cell, to: Cell, all: &[Measurement]) -> Option<f64> {
    let mut ratios: Vec<f64> = measurements(of, all)
        .filter_map(|measurement| {
            let other = measurements(to, all).find(|other| other.round == measurement.round)?;
            Some(measurement.per_second / other.per_second)
        })
        .collect();
    (!ratios.is_empty()).then(|| median(&mut ratios))
}

fn baseline(cell: Cell, rows: &[Row]) -> Option<&Row> {
    rows.iter()
        .filter(|row| row.cell.target.is_baseline() && Cell { target: cell.target, ..row.cell } == cell)
        .max_by(|one, other| one.per_second.total_cmp(&other.per_second))
}

fn row(cell: Cell, all: &[Measurement]) -> Row {
    let over =
        |value: fn(&Measurement) -> f64| median(&mut measurements(cell, all).map(value).collect::<Vec<_>>());
    Row {
        cell,
        per_second: over(|m| m.per_second),
        p50_ms: over(|m| m.p50_ms),
        p99_ms: over(|m| m.p99_ms),
        costs: Costs {
            server_micros: over(|m| m.costs.server_micros),
            database_micros: over(|m| m.costs.database_micros),
            generator_micros: over(|m| m.costs.generator_micros),
            generator_busy: over(|m| m.costs.generator_busy),
            log_bytes: over(|m| m.costs.log_bytes),
        },
        peak_memory_bytes: measurements(cell, all).map(|m| m.peak_memory_bytes).max().unwrap_or(0),
        ratio: None,
        ratio_to_clean: None,
        faults: measurements(cell, all).filter(|m| m.fault.is_some()).count(),
    }
}

fn measurements(cell: Cell, all: &[Measurement]) -> impl Iterator<Item = &Measurement> {
    all.iter().filter(move |measurement| measurement.cell == cell)
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values {
        [] => 0.0,
        _ if values.len() % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
