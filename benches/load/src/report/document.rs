//! The measured part of `docs/performance.md`: everything between two markers is replaced.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use chrono::DateTime;

use super::summary::Summary;
use super::{Results, goals, table};
use crate::machine::Machine;
use crate::plan::Plan;

/// A part of the page that is written by a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    begin: &'static str,
    end: &'static str,
}

/// What `run` measures.
pub(super) const RECEIVER: Section = Section {
    begin: "<!-- measured: begin (written by benches/load, do not edit) -->",
    end: "<!-- measured: end -->",
};
/// What `relay` measures.
pub(crate) const RELAY: Section = Section {
    begin: "<!-- measured relay: begin (written by benches/load, do not edit) -->",
    end: "<!-- measured relay: end -->",
};

/// Writes `measured` into its section of `docs/performance.md`.
pub(crate) fn write(root: &Path, section: Section, measured: &str) -> Result<()> {
    let path = root.join("docs/performance.md");
    let page = fs::read_to_string(&path)?;
    fs::write(&path, fill(&page, section, measured)?)?;
    println!("tables written into {}", path.display());
    Ok(())
}

/// The page with `measured` between the markers of its section.
fn fill(page: &str, section: Section, measured: &str) -> Result<String> {
    let Section { begin, end } = section;
    let (before, rest) = page.split_once(begin).context("the page has no begin marker")?;
    let (_, after) = rest.split_once(end).context("the page has no end marker")?;
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", measured.trim()))
}

pub(super) fn render(results: &Results, summary: &Summary) -> String {
    let mut text = surroundings(results);
    text += "### Goals\n\n";
    text += &goals::markdown(&goals::judge(summary));
    text += "\n\n";
    text += &table::markdown(summary, results.plan.large_rows);
    text
}

fn surroundings(results: &Results) -> String {
    let Plan { rounds, window, warm_up, .. } = &results.plan;
    format!(
        "{} {rounds} rounds of {} s a cell after {} s of warm-up; load before the run {:.2}.\n\n",
        whereabouts(results.measured_at, &results.machine),
        window.as_secs_f64(),
        warm_up.as_secs_f64(),
        results.machine.load,
    )
}

/// When and on what machine.
pub(crate) fn whereabouts(measured_at: u64, machine: &Machine) -> String {
    let day = i64::try_from(measured_at)
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        .map_or_else(String::new, |time| time.format("%Y-%m-%d").to_string());
    format!(
        "Measured {day}: {} cores of {}, {} GiB of memory, Linux {}, PostgreSQL {}; a durable write of 8 KiB \
         takes {} µs.",
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.kernel,
        machine.postgres.as_deref().unwrap_or("none"),
        machine.sync_micros,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_replaces_what_is_between_the_markers_and_nothing_else() {
        let Section { begin, end } = RELAY;
        let page = format!("above\n{begin}\nold\n{end}\nbelow\n");
        let once = fill(&page, RELAY, "new").unwrap();
        assert_eq!(once, format!("above\n{begin}\n\nnew\n\n{end}\nbelow\n"));
        assert_eq!(fill(&once, RELAY, "new").unwrap(), once);
    }

    #[test]
    fn a_page_without_markers_is_refused() {
        assert!(fill("nothing here", RECEIVER, "new").is_err());
        assert!(fill(RECEIVER.begin, RELAY, "new").is_err());
    }
}
