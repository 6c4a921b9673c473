//! `hooklatch destinations …`: where messages go, what waits there, and pauses.

use bytes::Bytes;
use clap::{Args, Subcommand};

use crate::clock;
use crate::config::duration;
use crate::outbox::destination::{self, Meaning};
use crate::store::outbox::{Backlog, DestinationState, Message};

use super::Failure;
use super::config_file::ConfigFile;
use super::table;
use super::workplace::{Workplace, no_such};

/// Look at destinations; pause, resume or try one.
#[derive(Debug, Subcommand)]
pub(super) enum Destinations {
    /// List destinations, what waits for them and whether they are kept back
    List(Place),
    /// Keep messages back until `resume`; those on their way are finished
    Pause(Pause),
    /// End a pause, and close an open breaker
    Resume(Named),
    /// Send one message that is not in the outbox, and show the answer
    Test(Named),
}

#[derive(Debug, Args)]
pub(super) struct Place {
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    #[command(flatten)]
    place: Place,
    /// Name of the destination
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    named: Named,
    /// Why, for whoever looks next
    #[arg(long, default_value = "by an operator")]
    reason: String,
}

impl Destinations {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let file = match &self {
            Self::List(place) => &place.file,
            Self::Pause(pause) => &pause.named.place.file,
            Self::Resume(named) | Self::Test(named) => &named.place.file,
        };
        let place = Workplace::open(file).await?;
        let result = match &self {
            Self::List(_) => list(&place).await,
            Self::Pause(pause) => pause.run(&place).await,
            Self::Resume(named) => named.resume(&place).await,
            Self::Test(named) => named.test(&place).await,
        };
        place.store.close().await;
        result
    }
}

async fn list(place: &Workplace) -> Result<(), Failure> {
    let states = place.store.destination_states().await?;
    let backlog = place.store.backlog().await?;
    let configured = place.config.destinations.iter().map(|spec| spec.name.to_string());
    let others =
        states.iter().map(|state| state.name.clone()).chain(backlog.iter().map(|b| b.destination.clone()));
    let mut names: Vec<String> = configured.clone().collect();
    for other in others {
        if !names.contains(&other) {
            names.push(other);
        }
    }
    let mut rows = table::new(["destination", "unsent", "oldest", "given up", "state"]);
    for name in &names {
        let waits = backlog.iter().find(|waits| waits.destination == *name);
        let state = states.iter().find(|state| state.name == *name);
        let known = configured.clone().any(|known| known == *name);
        rows.add_row([
            table::cell(name),
            waits.map_or(0, |waits| waits.unsent).to_string(),
            waits.filter(|waits| waits.unsent > 0).map_or_else(|| "–".to_owned(), oldest),
            waits.map_or(0, |waits| waits.dead).to_string(),
            table::cell(&standing(state, known)),
        ]);
    }
    say!("{rows}");
    Ok(())
}

fn oldest(waits: &Backlog) -> String {
    duration::show(std::time::Duration::from_secs(waits.oldest.as_secs()))
}

fn standing(state: Option<&DestinationState>, known: bool) -> String {
    let reason = |reason: &Option<String>| reason.clone().unwrap_or_default();
    match state {
        _ if !known => "not configured: nothing is delivered".to_owned(),
        Some(state) if state.paused_at.is_some() => format!("paused: {}", reason(&state.pause_reason)),
        Some(state) if !state.open_for.is_zero() => {
            format!("left alone for {} s: {}", state.open_for.as_secs() + 1, reason(&state.open_reason))
        }
        _ => "open".to_owned(),
    }
}

impl Pause {
    async fn run(&self, place: &Workplace) -> Result<(), Failure> {
        self.named.check(place)?;
        place.store.pause_destination(&self.named.name, &self.reason).await?;
        say!(
            "{} is paused; relays see it within {}",
            self.named.name,
            duration::show(place.config.relay.options().hear_every())
        );
        Ok(())
    }
}

impl Named {
    /// A name with a slip in it would pause nothing.
    fn check(&self, place: &Workplace) -> Result<(), Failure> {
        if place.config.destinations.iter().any(|spec| *spec.name == *self.name) {
            return Ok(());
        }
        let known: Vec<_> = place.config.destinations.iter().map(|spec| &*spec.name).collect();
        Err(no_such("destination", &self.name, &known))
    }

    async fn resume(&self, place: &Workplace) -> Result<(), Failure> {
        match place.store.resume_destination(&self.name).await? {
            true => say!("{} is open", self.name),
            false => say!("{} was neither paused nor left alone", self.name),
        }
        Ok(())
    }

    async fn test(&self, place: &Workplace) -> Result<(), Failure> {
        self.check(place)?;
        let spec = place.config.destinations.iter().find(|spec| *spec.name == *self.name);
        let Some(spec) = spec else { return Ok(()) };
        let destination = destination::open(spec)
            .map_err(|error| Failure::because("cannot open the destination", &error))?;
        let id = clock::new_id();
        let message = Message {
            id,
            aggregate_id: None,
            event_type: "hooklatch.test".to_owned(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            payload: Bytes::from(format!(r#"{{"id":"{id}","type":"hooklatch.test","data":{{}}}}"#)),
            traceparent: None,
            hops: 0,
            attempts: 1,
            age: std::time::Duration::ZERO,
        };
        let answer = destination.deliver(&message, place.clock.now()).await;
        let text = table::cell(&String::from_utf8_lossy(&answer.body));
        match (answer.meaning, answer.error) {
            (Meaning::Accepted, _) => {
                // Brokers have no status for it.
                let status = answer.status.map(|status| format!(": {status} {text}")).unwrap_or_default();
                say!("{} took it{status}", self.name);
                Ok(())
            }
            (_, error) => Err(Failure::new(format!(
                "{} did not take it: {} {text}",
                self.name,
                error.unwrap_or_default()
            ))),
        }
    }
}
