//! Reading again what has changed, while deliveries are taken: the configuration and certificates.
//!
//! On SIGHUP, and when a file has changed and come to rest. What is read is validated as at start
//! before anything changes; what cannot be used changes nothing, is logged and counted, and the old
//! stays. Deliveries that have begun go on with what they began with, and no connection is closed.

mod certificates;
mod configuration;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio_util::sync::CancellationToken;

pub(crate) use certificates::Certificates;
pub use configuration::Origin;
pub(crate) use configuration::{Configuration, Parts};

/// How often the files are looked at. A change counts at the second look that sees it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is read again in a running process.
pub(crate) struct Reload {
    /// `None` in a program that made its configuration itself.
    pub(crate) configuration: Option<Configuration>,
    pub(crate) certificates: Certificates,
}

/// Looks at the files until `stop`. A `hangup` reads everything at once.
pub(crate) async fn run(mut reload: Reload, mut hangup: Signal, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let cause = tokio::select! {
            () = stop.cancelled() => return,
            _ = hangup.recv() => Cause::Signal,
            _ = looks.tick() => Cause::Look,
        };
        if cause == Cause::Signal {
            tracing::info!("SIGHUP: reading the configuration and certificates again");
        }
        if let Some(configuration) = &mut reload.configuration {
            configuration.look(cause).await;
        }
        reload.certificates.look(cause).await;
    }
}

/// Why something is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Somebody asked for it.
    Signal,
    /// Only if it has changed.
    Look,
}

/// Runs what may wait for a disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Files, and what was last seen of them.
type Watched = Arc<std::sync::Mutex<watched::Files>>;
