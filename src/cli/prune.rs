//! `hooklatch prune`: deletes once, by hand, what has expired.

use std::ops::ControlFlow;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::config::duration;
use crate::pruner::prune_round;
use crate::store::Prunable;

use super::Failure;
use super::config_file::ConfigFile;
use super::table;
use super::workplace::Workplace;

const BAR: &str = "{msg:18} {bar:40} {human_pos}/{human_len} rows {per_sec} {eta}";

/// Delete what retention no longer keeps, now. `serve` does the same on a schedule.
#[derive(Debug, Args)]
pub(super) struct Prune {
    #[command(flatten)]
    file: ConfigFile,
    /// Only count what would be deleted
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let place = Workplace::open(&self.file).await?;
        let result = self.prune(&place).await;
        place.store.close().await;
        result
    }

    async fn prune(&self, place: &Workplace) -> Result<(), Failure> {
        let retention = &place.config.retention;
        let mut expired = Vec::new();
        for what in Prunable::ALL {
            expired.push((what, place.store.count_prunable(what, retention.keep(what)).await?));
        }
        if self.dry_run {
            print(&expired, "would be deleted", |what| duration::show(retention.keep(what)));
            return Ok(());
        }
        let bar = ProgressBar::new(expired.iter().map(|(_, rows)| rows).sum());
        if let Ok(style) = ProgressStyle::with_template(BAR) {
            bar.set_style(style);
        }
        let pruned = prune_round(&*place.store, retention, |what, rows| {
            bar.set_message(what.as_str());
            // Rows that expired meanwhile: the bar never runs over.
            bar.set_length(bar.length().unwrap_or(0).max(bar.position() + rows));
            bar.inc(rows);
            ControlFlow::Continue(())
        })
        .await;
        bar.finish_and_clear();
        print(&pruned?.rows, "deleted", |what| duration::show(retention.keep(what)));
        Ok(())
    }
}

fn print(counts: &[(Prunable, u64)], done: &str, keep: impl Fn(Prunable) -> String) {
    let mut rows = table::new(["table", "kept for", done]);
    for (what, count) in counts {
        rows.add_row([what.as_str().to_owned(), keep(*what), count.to_string()]);
    }
    say!("{rows}");
}
