//! How tables and times look on a terminal.

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

/// Texts longer than this are cut: a table is for looking, `--json` has everything.
const LONGEST_CELL: usize = 60;

pub(super) fn new<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// A time to the millisecond, in UTC.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Text from outside, on one line, without control characters.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The same, cut to fit.
pub(super) fn cell(text: &str) -> String {
    let mut shown: String = line(text).chars().take(LONGEST_CELL).collect();
    if text.chars().nth(LONGEST_CELL).is_some() {
        shown.push('…');
    }
    shown
}

/// The whole text, in lines that fit.
pub(super) fn paragraph(text: &str) -> String {
    let (mut shown, mut width) = (String::new(), 0);
    for word in line(text).split_whitespace() {
        let length = word.chars().count();
        if width > 0 {
            let fits = width + 1 + length <= LONGEST_CELL;
            shown.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        shown.push_str(word);
        width += length;
    }
    shown
}

/// Milliseconds with one digit after the point.
pub(super) fn millis(duration: std::time::Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_shown_whole_in_lines_that_fit() {
        let text = "NOT NULL constraint failed: orders.customer_id ".repeat(5);
        let shown = paragraph(&text);
        assert!(shown.lines().all(|line| line.chars().count() <= LONGEST_CELL), "{shown}");
        assert_eq!(shown.replace('\n', " "), text.trim());
        assert_eq!(paragraph("a\u{1b}b\nc"), "a\u{fffd}b\u{fffd}c");
    }
}
