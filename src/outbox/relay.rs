//! The relay of one process: a lane for each destination, and what they share.
//!
//! Polling is the guarantee that every message is found; what rings the bells is a hint. Any number
//! of relays may work on one database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Hints;
use super::destination::{self, Destination, DestinationSpec, OpenError};
use super::gate::Said;
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
/// is finished as it began, beside what follows. Returns early only when a part of it crashed, in order
/// all the same.
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
                    match ended {
                        Ok(Ok(())) => {}
                        Ok(Err(PartEnded)) => {
                            end.cancel();
                            while generations.join_next().await.is_some() {}
                            return;
                        }
                        Err(error) => {
                            tracing::error!(%error, "the relay ended unexpectedly");
                            return;
                        }
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
///
/// # Errors
/// When a part has ended that nobody told to: the others have ended in order.
pub async fn run(relay: Relay, stop: CancellationToken) -> Result<(), PartEnded> {
    let Relay { parts, destinations, hints, listen } = relay;
    let names: Vec<Arc<str>> = destinations.iter().map(|(spec, _)| spec.name.clone()).collect();
    parts.metrics.outbox.register(names.iter().map(|name| &**name));
    let (results, receiver) = mpsc::channel(RESULTS);
    let mut settling = JoinSet::new();
    settling.spawn(settler::run(parts.store.clone(), receiver, hints.clone(), parts.options.lease));
    let (publish, states) = watch::channel(States::new(Said { at: Instant::now(), by_name: HashMap::new() }));
    let mut beside = JoinSet::new();
    beside.spawn(read_states(parts.clone(), publish));
    beside.spawn(sample(parts.clone(), names.clone()));
    beside.spawn(free_orphans(parts.store.clone(), hints.clone(), names));
    if listen {
        beside.spawn(listen_for_hints(parts.clone(), hints.clone()));
    }
    let end = stop.child_token();
    let mut lanes = JoinSet::new();
    for (spec, destination) in destinations.iter() {
        let bell = hints.bell(&spec.name);
        let lane = Lane::new(parts.clone(), spec.clone(), destination.clone());
        lanes.spawn(lane.run(bell, states.clone(), results.clone(), end.clone()));
    }
    drop(results);
    let outcome = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        Some(ended) = lanes.join_next() => {
            tell_of("a lane", ended);
            Err(PartEnded)
        }
        error = crash_of(&mut settling) => Err(tell_of("the settler", Err(error))),
        error = crash_of(&mut beside) => Err(tell_of("a task beside the lanes", Err(error))),
    };
    end.cancel();
    while let Some(ended) = lanes.join_next().await {
        if ended.is_err() {
            tell_of("a lane", ended);
        }
    }
    while let Some(ended) = settling.join_next().await {
        if ended.is_err() {
            tell_of("the settler", ended);
        }
    }
    beside.shutdown().await;
    outcome
}

/// A part of the relay has ended that nobody told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of the relay ended unexpectedly")]
pub struct PartEnded;

fn tell_of(part: &str, ended: Result<(), JoinError>) -> PartEnded {
    match ended {
        Err(error) => tracing::error!(%error, "{part} of the relay ended unexpectedly"),
        Ok(()) => tracing::error!("{part} of the relay ended unexpectedly"),
    }
    PartEnded
}

/// Waits until one of these crashes. One that ends in order is no crash.
async fn crash_of(tasks: &mut JoinSet<()>) -> JoinError {
    loop {
        match tasks.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => return error,
            None => std::future::pending().await,
        }
    }
}

/// Reads what relays and operators tell of destinations.
async fn read_states(parts: LaneParts, publish: watch::Sender<States>) {
    let mut failed = false;
    loop {
        let at = Instant::now();
        match parts.store.destination_states().await {
            Ok(states) => {
                failed = false;
                let by_name = states.into_iter().map(|state| (state.name.clone(), state)).collect();
                publish.send_replace(Arc::new(Said { at, by_name }));
            }
            Err(error) => {
                if !failed {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the state of destinations cannot be read; what was known counts; before the first reading nothing is sent"
                    );
                }
                failed = true;
            }
        }
        tokio::time::sleep(parts.options.hear_every()).await;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use chrono::{DateTime, Utc};

    use super::super::destination::{Answer, Meaning};
    use super::super::lane::LaneOptions;
    use super::*;
    use crate::clock::Clock;
    use crate::config::{Config, Environment};
    use crate::store::outbox::Message;
    use crate::store::sqlite::SqliteStore;
    use crate::telemetry::metrics::Metrics;

    struct Nowhere;

    #[async_trait]
    impl Destination for Nowhere {
        async fn deliver(&self, _: &Message, _: DateTime<Utc>) -> Answer {
            Answer::none(Meaning::Refused, "nothing is taken here")
        }
    }

    #[tokio::test]
    async fn a_part_that_crashes_ends_the_relay_though_nobody_stops_it() {
        let is_broken = Arc::new(AtomicBool::new(false));
        let broken = is_broken.clone();
        // Whoever asks this clock for the time crashes.
        let clock = Clock::from_fn(move || {
            assert!(!broken.load(Ordering::SeqCst), "the test breaks this clock");
            Clock::system().now()
        });
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite://{}/r.db", directory.path().display());
        let store = Arc::new(SqliteStore::connect(&url, clock.clone()).await.expect("opens"));
        store.migrate().await.expect("migrates");
        let text = "[[destination]]\nname = \"crm\"\nurl = \"http://localhost:9/\"\n";
        let config = Config::parse("test.toml", text, &Environment::default()).expect("is right");
        let options = LaneOptions { poll_every: Duration::from_millis(10), ..config.relay.options() };
        let relay = Relay {
            parts: LaneParts { store, clock, metrics: Arc::new(Metrics::new()), options },
            destinations: Arc::new(vec![(config.destinations[0].clone(), Arc::new(Nowhere))]),
            hints: Hints::new([config.destinations[0].name.clone()]),
            listen: false,
        };
        let (_changes, destinations) = watch::channel(Destinations::default());
        let running = tokio::spawn(follow(relay, destinations, CancellationToken::new()));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!running.is_finished());
        is_broken.store(true, Ordering::SeqCst);
        let ended = tokio::time::timeout(Duration::from_secs(30), running).await.expect("it ends");
        ended.expect("without a panic of its own");
    }
}
