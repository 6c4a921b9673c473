//! Which step the story is at, on standard error: a spinner on a terminal, a line a step elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::story::STEPS;

const TICK: Duration = Duration::from_millis(100);

/// The spinner; silent once ended.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` where nobody watches.
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn start() -> Self {
        if !stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new(STEPS as u64);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { bar: Some(bar) }
    }

    pub(super) fn step(&self, what: &'static str) {
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_message(what);
            }
            None => eprintln!("playground: {what}"),
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
