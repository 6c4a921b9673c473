//! The measured part of `docs/performance.md`: everything between two markers is replaced.

use anyhow::{Context, Result};
use chrono::DateTime;

use super::summary::Summary;
use super::{Results, goals, table};

const BEGIN: &str = "<!-- measured: begin (written by benches/load, do not edit) -->";
const END: &str = "<!-- measured: end -->";

/// The page with `measured` between its markers.
pub(super) fn fill(page: &str, measured: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no begin marker")?;
    let (_, after) = rest.split_once(END).context("the page has no end marker")?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", measured.trim()))
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
    let Results { machine, plan, .. } = results;
    let day = i64::try_from(results.measured_at)
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        .map_or_else(String::new, |time| time.format("%Y-%m-%d").to_string());
    let postgres = machine.postgres.as_deref().unwrap_or("none");
    format!(
        "Measured {day}: {} cores of {}, {} GiB of memory, Linux {}, PostgreSQL {postgres}; a durable write \
         of 8 KiB takes {} µs. {} rounds of {} s a cell after {} s of warm-up; load before the run {:.2}.\n\n",
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.kernel,
        machine.sync_micros,
        plan.rounds,
        plan.window.as_secs_f64(),
        plan.warm_up.as_secs_f64(),
        machine.load,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_replaces_what_is_between_the_markers_and_nothing_else() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let once = fill(&page, "new").unwrap();
        assert_eq!(once, format!("above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"));
        assert_eq!(fill(&once, "new").unwrap(), once);
    }

    #[test]
    fn a_page_without_markers_is_refused() {
        assert!(fill("nothing here", "new").is_err());
    }
}
