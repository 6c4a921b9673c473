//! What the stories cost, as a table that a person reads.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::play::Cost;

/// Fits a usual terminal.
const WIDTH: u16 = 100;
/// The widest title, with the blanks beside it.
const TITLE: u16 = 41;

pub(crate) struct Row {
    title: String,
    cost: Cost,
}

impl Row {
    pub(crate) fn new(title: &str, cost: &Cost) -> Self {
        Self { title: title.to_owned(), cost: *cost }
    }
}

pub(crate) fn render(heading: &str, rows: &[Row]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED.with_rounded_corners())
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(["", "orders", "POSTs", "taken again", "effects, no dedup", "effects, dedup", "lost"]);
    for Row { title, cost } in rows {
        let numbers =
            [cost.orders, cost.posts, cost.again, cost.effects_unchecked, cost.effects_checked, cost.lost];
        let cells = numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(title)].into_iter().chain(cells));
    }
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(TITLE)));
    }
    format!("{heading}:\n{table}\n")
}
