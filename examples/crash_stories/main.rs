//! What a crash costs: relays and consumers as they are usually written, and hooklatch's, killed at the
//! worst moment and started again.
//!
//! ```console
//! $ cargo run --example crash_stories
//! $ DATABASE_URL=postgres://localhost/postgres cargo run --example crash_stories
//! ```
//!
//! Everything is real and counted, nothing is written by hand: transactions on embedded SQLite, or on
//! PostgreSQL in databases that are made for it and dropped again; an HTTP receiver on loopback; relays as
//! processes of their own that are killed with SIGKILL. hooklatch's relay is the library's, as
//! `hooklatch relay` runs it. The others are here to show what they cost.

mod database;
mod play;
mod receiver;
mod relays;
mod stage;
mod table;

use std::error::Error;
use std::io::{self, Write as _};
use std::iter::successors;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use futures_util::FutureExt as _;
use futures_util::future::try_join_all;

use play::{Cost, Moment, play};
use relays::{Part, Relay};
use stage::Stage;
use table::Row;
use tokio::signal::unix::{SignalKind, signal};

/// Anything that keeps a story from being told.
type Failure = Box<dyn Error + Send + Sync>;

/// How many events wait when the relay starts.
const FIFTY: usize = 50;
/// The one at which something happens.
const THE_31ST: usize = 31;
/// What hooklatch has on its way at a time, unless told otherwise.
const IN_FLIGHT: usize = 16;

#[tokio::main]
async fn main() -> ExitCode {
    let told = match Part::of_this_process() {
        Some(part) => relays::run(part).await,
        None => tell_and_clear_up().await,
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash_stories: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Whatever becomes of the stories, nothing of them is left.
async fn tell_and_clear_up() -> Result<(), Failure> {
    let stage = Stage::of_environment()?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let told = tokio::select! {
        told = AssertUnwindSafe(tell(&stage)).catch_unwind() => {
            told.unwrap_or_else(|_| Err("a story panicked; its message is above".into()))
        }
        _ = interrupt.recv() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
        _ = hangup.recv() => Err("its terminal is gone".into()),
    };
    let cleared = stage.clear().await;
    if let (Err(_), Err(error)) = (&told, &cleared) {
        eprintln!("crash_stories: {error}");
    }
    told.and(cleared)
}

async fn tell(stage: &Stage) -> Result<(), Failure> {
    say(&format!("Four relays, {FIFTY} events each, on {}.\n", stage.name()));
    let relays = [
        Relay::WholeBatch,
        Relay::OneByOne,
        Relay::MarkFirst,
        Relay::Hooklatch { in_flight: 1 },
        Relay::Hooklatch { in_flight: IN_FLIGHT },
    ];
    let costs =
        try_join_all(relays.map(|relay| play(stage, relay, Moment::Refused, FIFTY, THE_31ST))).await?;
    say(&table::render("The receiver answers the 31st POST with 500, once", &rows(&relays, &costs)));

    let costs = try_join_all(relays.map(|relay| play(stage, relay, Moment::Killed, FIFTY, THE_31ST))).await?;
    say(&table::render("kill -9 between the POST and the mark of the 31st", &rows(&relays, &costs)));
    say(
        "\"mark, then publish\" has its two steps the other way round, and is killed between them as well.\n\
         With 16 on their way at a time, the answers of 16 are lost. No relay can do better than this:\n\
         what is delivered and not noted has to be delivered again. A receiver that dedups makes it harmless.\n",
    );

    orders(stage).await
}

/// Order O7 and its event E42.
async fn orders(stage: &Stage) -> Result<(), Failure> {
    let outbox = Relay::Hooklatch { in_flight: 1 };
    let rolled_back = play::rolled_back(stage).await?;
    let direct = play::killed_after_commit(stage, Relay::Direct).await?;
    let kept = play::killed_after_commit(stage, outbox).await?;
    let repeated = play(stage, outbox, Moment::Killed, 1, 1).await?;
    let marked = play(stage, Relay::MarkFirst, Moment::Killed, 1, 1).await?;
    let rows = [
        Row::new("order and event in one transaction, rolled back", &rolled_back),
        Row::new("no outbox: killed after the commit, before the POST", &direct),
        Row::new("outbox: killed after the commit", &kept),
        Row::new("outbox: killed after the POST, before the mark", &repeated),
        Row::new("mark, then publish: killed between", &marked),
    ];
    say(&table::render("Order O7 and its event E42", &rows));
    if (repeated.taken, repeated.effects_unchecked, repeated.effects_checked) != (2, 2, 1) {
        return Err(format!("E42 was to be delivered twice, and was not: {repeated:?}").into());
    }
    say("Without dedup: two deliveries of E42; two effects.\n\
         With dedup: two deliveries of E42; one committed consumer effect.");
    Ok(())
}

fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join("\n  because: ")
}

fn rows(relays: &[Relay], costs: &[Cost]) -> Vec<Row> {
    relays.iter().zip(costs).map(|(relay, cost)| Row::new(relay.title(), cost)).collect()
}

fn say(text: &str) {
    // Nobody may be reading (`| head`).
    let _unheard = writeln!(io::stdout(), "{text}");
}
