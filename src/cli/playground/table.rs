//! The story as a table that a person reads: at most [`WIDTH`] columns, colour only where it shows.

use comfy_table::presets::UTF8_FULL;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::story::Line;

/// Fits a usual terminal.
const WIDTH: u16 = 100;
/// The widest text of each column.
const COLUMNS: [u16; 5] = [24, 23, 18, 18, 1];
/// What the table library counts as part of a column.
const BLANKS_BESIDE_TEXT: u16 = 2;
/// Below the table: what it counts.
const LEGEND: &str = "key: the event's row in processed_events · order: its row in the shop's own table
message: its row in the outbox · parcel: what the packing station made of it";

const AS_IT_MUST: &str = "✓";
const OTHERWISE: &str = "✗";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";

/// The table, and below it what should have come where something else did.
pub(super) fn render(lines: &[Line], in_colour: bool) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL.with_rounded_corners())
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(["step", "sent", "answer", "in the database", ""]);
    for (number, line) in lines.iter().enumerate() {
        let verdict = if line.wanted.is_none() { AS_IT_MUST } else { OTHERWISE };
        table.add_row([
            Cell::new(format!("{} {}", number + 1, line.step)),
            Cell::new(&line.sent),
            Cell::new(&line.answer),
            Cell::new(&line.effects),
            Cell::new(verdict).set_alignment(CellAlignment::Center),
        ]);
    }
    table.set_constraints(
        COLUMNS.map(|width| ColumnConstraint::UpperBoundary(Width::Fixed(width + BLANKS_BESIDE_TEXT))),
    );
    let mut text = format!("{table}\n{LEGEND}");
    for (number, line) in lines.iter().enumerate() {
        if let Some(wanted) = &line.wanted {
            text.push_str(&format!("\n{OTHERWISE} step {}: should have been {wanted}", number + 1));
        }
    }
    if in_colour { colour(&text) } else { text }
}

fn colour(text: &str) -> String {
    text.replace(AS_IT_MUST, &format!("{GREEN}{AS_IT_MUST}{PLAIN}"))
        .replace(OTHERWISE, &format!("{RED}{OTHERWISE}{PLAIN}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(wanted: Option<&str>) -> Line {
        Line {
            step: "same key, other body",
            sent: "the same Idempotency-Key, another amount, and more words than there is room for".into(),
            answer: "200 applied ×1, 200 replayed ×49, others ×12345".into(),
            effects: "12345 keys, 12345 orders".into(),
            wanted: wanted.map(str::to_owned),
        }
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        for line in render(&[line(None), line(None)], false).lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
        }
    }

    #[test]
    fn what_should_have_come_is_said_below() {
        let text = render(&[line(None), line(Some("a miracle"))], false);
        assert!(text.ends_with("✗ step 2: should have been a miracle"), "{text}");
        assert!(!text.contains('\x1b'), "colour where nobody asked for it");
    }
}
