//! Tells that a task has ended which should have gone on.

use tokio_util::sync::CancellationToken;

/// Held by a task. When it is dropped before the task was told to stop, the task has crashed.
#[derive(Debug)]
pub(crate) struct Alarm {
    stop: CancellationToken,
    crashed: CancellationToken,
}

impl Alarm {
    /// `stop` tells the task to end, `crashed` is cancelled when it ends without.
    pub(crate) fn new(stop: &CancellationToken, crashed: &CancellationToken) -> Self {
        Self { stop: stop.clone(), crashed: crashed.clone() }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            self.crashed.cancel();
        }
    }
}
