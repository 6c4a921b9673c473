//! The signals that the process answers to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit codes of a process that a second signal ended: 128 and the signal's number.
const EXIT_SIGINT: i32 = 130;
const EXIT_SIGTERM: i32 = 143;

/// The signals that end a process, and the one that makes it read its configuration again.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on these signals do not end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: Some(signal(SignalKind::hangup())?),
        })
    }

    /// The one that makes the process read its configuration again; once.
    pub(super) fn take_hangup(&mut self) -> Option<Signal> {
        self.hangup.take()
    }

    /// Waits for the next one that ends the process; returns its name, and the exit code of who does not
    /// wait any more.
    pub(super) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", EXIT_SIGINT),
            _ = self.terminate.recv() => ("SIGTERM", EXIT_SIGTERM),
        }
    }
}
