//! The relay of one process: a lane for each destination, and what they share.
//!
//! Polling is the guarantee that every message is found; what rings the bells is a hint. Any number
//! of relays may work on one database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Hints;
use super::destination::{self, Destination, DestinationSpec, OpenError};
use super::lane::{Lane, LaneParts, States};
use super::settler;
use crate::store::Store;

/// Results that wait to be noted.
const RESULTS: usize = 1024;
/// Counting the outbox may cost a scan of an index: not more often than this …
const SAMPLE_EVERY: Duration = Duration::from_secs(15);
/// … and so that counting takes no more than this part of the time.
const SAMPLE_PART: u32 = 50;
/// How often to look for messages that wait for nothing, at most …
const FREE_EVERY: Duration = Duration::from_secs(15);
/// … and so that looking takes no more than this part of the time: it reads all that wait.
const FREE_PART: u32 = 50;
/// Pause before listening again after the connection was lost.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Destinations that messages can be delivered to.
pub type Destinations = Arc<Vec<(DestinationSpec, Arc<dyn Destination>)>>;

/// The relay of one process.
#[derive(Clone)]
pub struct Relay {
    pub parts: LaneParts,
    pub destinations: Destinations,
    pub hints: Hints,
    /// Whether to ask the database for hints.
    pub listen: bool,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("destinations", &self.destinations.len()).finish_non_exhaustive()
    }
}

/// Opens destinations.
///
/// # Errors
/// The name of the first that cannot be opened, and why.
pub fn open_all(specs: &[DestinationSpec]) -> Result<Destinations, (Arc<str>, OpenError)> {
    let open = |spec: &DestinationSpec| {
        destination::open(spec)
            .map(|destination| (spec.clone(), destination))
            .map_err(|error| (spec.name.clone(), error))
    };
    specs.iter().map(open).collect::<Result<Vec<_>, _>>().map(Arc::new)
}

/// Relays until `stop`, to other destinations after each change. What was on its way before a change
/// is finished as it began, beside what follows. Returns early only when a part of it crashed.
pub async fn follow(
    mut relay: Relay,
    mut destinations: watch::Receiver<Destinations>,
    stop: CancellationToken,
) {
    let mut generations = JoinSet::new();
    loop {
        let end = stop.child_token();
        // Without a destination there is nothing to ask the database for.
        if !relay.destinations.is_empty() {
            generations.spawn(run(relay.clone(), end.clone()));
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    while generations.join_next().await.is_some() {}
                    return;
                }
                Ok(()) = destinations.changed() => break,
                Some(ended) = generations.join_next(), if !generations.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the relay ended unexpectedly");
                        return;
                    }
                }
            }
        }
        end.cancel();
        relay.destinations = destinations.borrow_and_update().clone();
        relay.hints.replace(relay.destinations.iter().map(|(spec, _)| spec.name.clone()));
    }
}

/// Relays until `stop`; then finishes what is on its way, notes it, and gives back the rest.
pub async fn run(relay: Relay, stop: CancellationToken) {
    let Relay { parts, destinations, hints, listen } = relay;
    let names: Vec<Arc<str>> = destinations.iter().map(|(spec, _)| spec.name.clone()).collect();
    parts.metrics.outbox.register(names.iter().map(|name| &**name));
    let (results, receiver) = mpsc::channel(RESULTS);
    let settler =
        tokio::spawn(settler::run(parts.store.clone(), receiver, hints.clone(), parts.options.lease));
    let (publish, states) = watch::channel(States::default());
    let mut beside = JoinSet::new();
    beside.spawn(read_states(parts.clone(), publish));
    beside.spawn(sample(parts.clone(), names.clone()));
    beside.spawn(free_orphans(parts.store.clone(), hints.clone(), names));
    if listen {
        beside.spawn(listen_for_hints(parts.clone(), hints.clone()));
    }
    let mut lanes = JoinSet::new();
    for (spec, destination) in destinations.iter() {
        let bell = hints.bell(&spec.name);
        let lane = Lane::new(parts.clone(), spec.clone(), destination.clone());
        lanes.spawn(lane.run(bell, states.clone(), results.clone(), stop.clone()));
    }
    drop(results);
    stop.cancelled().await;
    while let Some(ended) = lanes.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "the lane of a destination ended unexpectedly");
        }
    }
    if let Err(error) = settler.await {
        tracing::error!(%error, "the settler ended unexpectedly");
    }
    beside.shutdown().await;
}

/// Reads what relays and operators tell of destinations, as often as lanes poll.
async fn read_states(parts: LaneParts, publish: watch::Sender<States>) {
    let mut failed = false;
    loop {
        match parts.store.destination_states().await {
            Ok(states) => {
                failed = false;
                let states: HashMap<_, _> =
                    states.into_iter().map(|state| (state.name.clone(), state)).collect();
                publish.send_if_modified(|known| {
                    let changed = **known != states;
                    *known = Arc::new(states);
                    changed
                });
            }
            Err(error) => {
                if !failed {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the state of destinations cannot be read; what was known counts"
                    );
                }
                failed = true;
            }
        }
        tokio::time::sleep(parts.options.poll_every).await;
    }
}

/// Counts what waits, for the metrics; says when messages wait for a destination nobody knows.
async fn sample(parts: LaneParts, names: Vec<Arc<str>>) {
    let mut unknown_told = false;
    loop {
        let started = Instant::now();
        if let Ok(backlog) = parts.store.backlog().await {
            parts.metrics.outbox.backlog(&backlog);
            let unknown = backlog.iter().find(|waits| names.iter().all(|name| **name != *waits.destination));
            if let Some(waits) = unknown.filter(|_| !unknown_told) {
                tracing::warn!(
                    destination = waits.destination,
                    messages = waits.unsent,
                    "messages wait for a destination that this relay does not know; add a [[destination]]"
                );
            }
            unknown_told = unknown.is_some();
        }
        tokio::time::sleep(SAMPLE_EVERY.max(started.elapsed() * SAMPLE_PART)).await;
    }
}

/// Frees what waits for a message that somebody has deleted by hand.
async fn free_orphans(store: Arc<dyn Store>, hints: Hints, names: Vec<Arc<str>>) {
    loop {
        let started = Instant::now();
        for name in &names {
            match store.free_orphans(name).await {
                Ok(0) => {}
                Ok(messages) => {
                    tracing::warn!(
                        destination = &**name,
                        messages,
                        "messages waited for others that are gone; they go on"
                    );
                    hints.ring(name);
                }
                Err(error) => tracing::debug!(
                    destination = &**name,
                    error = &error as &dyn std::error::Error,
                    "cannot look for messages that wait for nothing"
                ),
            }
        }
        tokio::time::sleep(FREE_EVERY.max(started.elapsed() * FREE_PART)).await;
    }
}

/// Rings the bells when the database says that something was written.
async fn listen_for_hints(parts: LaneParts, hints: Hints) {
    loop {
        match parts.store.outbox_hints().await {
            Ok(None) => return,
            Ok(Some(mut listener)) => {
                // What was written before we listened.
                hints.ring_all();
                while let Ok(destination) = listener.next().await {
                    hints.ring(&destination);
                }
            }
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot listen for messages; polling finds them"
            ),
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}
