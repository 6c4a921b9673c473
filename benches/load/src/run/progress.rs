//! How far a run has come, for whoever waits for it.

use std::time::Instant;

/// Lines on standard error that say how far the run has come.
pub(crate) struct Progress {
    started: Instant,
    total: usize,
    done: std::cell::Cell<usize>,
}

impl Progress {
    pub(crate) fn start(total: usize) -> Self {
        Self { started: Instant::now(), total, done: std::cell::Cell::new(0) }
    }

    pub(crate) fn say(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        eprintln!("[{:2}:{:02} {:3}/{}] {text}", seconds / 60, seconds % 60, self.done.get(), self.total);
    }

    pub(crate) fn step(&self, text: &str) {
        self.skip();
        self.say(text);
    }

    pub(crate) fn skip(&self) {
        self.done.set(self.done.get() + 1);
    }
}
