//! The table of all cells, for a terminal and as Markdown.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_FULL_CONDENSED};
use comfy_table::{CellAlignment, Table, TableStyle};

use crate::plan::Scenario;

use super::summary::{Row, Summary};

const HEADER: [&str; 11] = [
    "connections",
    "target",
    "events/s",
    "× plain",
    "p50 ms",
    "p99 ms",
    "peak MiB",
    "server µs",
    "PostgreSQL µs",
    "WAL bytes",
    "generator busy",
];
/// Columns of text; the others are numbers.
const TARGET_COLUMN: usize = 1;

/// What a scenario is, above its table.
pub(super) fn title(scenario: Scenario, large_rows: u64) -> String {
    match scenario {
        Scenario::New => "New events, PostgreSQL".into(),
        Scenario::Replay => "Replays, PostgreSQL".into(),
        Scenario::SqliteNew => "New events, SQLite".into(),
        Scenario::SqliteReplay => "Replays, SQLite".into(),
        Scenario::Poison => "New events, without and with 1 % that the handler refuses for good".into(),
        Scenario::Large => format!("New events, with {} rows in each table", thousands(large_rows as f64)),
    }
}

pub(super) fn terminal(summary: &Summary, large_rows: u64) -> String {
    sections(summary)
        .map(|(scenario, rows)| {
            let table = filled(UTF8_FULL_CONDENSED, &rows);
            format!("\n{}\n{table}\n", title(scenario, large_rows))
        })
        .collect()
}

pub(super) fn markdown(summary: &Summary, large_rows: u64) -> String {
    sections(summary)
        .map(|(scenario, rows)| {
            let table = filled(ASCII_MARKDOWN, &rows);
            format!("### {}\n\n{table}\n\n", title(scenario, large_rows))
        })
        .collect()
}

/// A whole number with separators.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Two digits that matter.
pub(crate) fn milliseconds(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.2}"),
        value if value < 10.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.2}"))
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    if bytes == 0 { "–".into() } else { bytes.div_ceil(1 << 20).to_string() }
}

fn sections(summary: &Summary) -> impl Iterator<Item = (Scenario, Vec<&Row>)> {
    Scenario::ALL.into_iter().filter_map(|scenario| {
        let rows: Vec<_> = summary.rows.iter().filter(|row| row.cell.scenario == scenario).collect();
        (!rows.is_empty()).then_some((scenario, rows))
    })
}

fn filled(style: TableStyle, rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header(HEADER);
    for row in rows {
        table.add_row(columns(row));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        let side = if at == TARGET_COLUMN { CellAlignment::Left } else { CellAlignment::Right };
        column.set_cell_alignment(side);
    }
    table
}

fn columns(row: &Row) -> [String; HEADER.len()] {
    let poison = if row.cell.poison_per_mille > 0 { ", 1 % refused" } else { "" };
    let fault = if row.faults > 0 { " FAULT" } else { "" };
    let or_dash = |value: f64| if value < 0.5 { "–".into() } else { thousands(value) };
    // What PostgreSQL does while another is measured is not theirs.
    let database = |value: f64| if row.cell.target.uses_postgres() { or_dash(value) } else { "–".into() };
    [
        row.cell.connections.to_string(),
        format!("{}{poison}{fault}", row.cell.target.as_str()),
        thousands(row.per_second),
        ratio(row.ratio),
        milliseconds(row.p50_ms),
        milliseconds(row.p99_ms),
        mebibytes(row.peak_memory_bytes),
        or_dash(row.costs.server_micros),
        database(row.costs.database_micros),
        database(row.costs.log_bytes),
        format!("{:.0} %", row.costs.generator_busy * 100.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(milliseconds(0.404), "0.40");
        assert_eq!(milliseconds(12.3), "12");
    }
}
