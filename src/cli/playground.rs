//! `hooklatch playground`: the orders example on loopback, on a SQLite file of its own, and a story
//! that shows what the receiver promises, played over real HTTP.
//!
//! The receiver and the relay are processes of their own, so that the story can kill them. This process
//! only sends, looks into the database, and judges.

mod books;
mod guide;
mod onward;
mod process;
mod progress;
mod receiver;
mod relay;
mod road;
mod sender;
mod site;
mod story;
mod table;

use std::io::{self, IsTerminal as _, Write as _, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Clock};
use crate::signature::{SignError, VerifyConfigError};

use super::Failure;
use super::failure::causes;

use books::Books;
use progress::Progress;
use receiver::{Receiver, Wanted, choose_address};
use relay::Relay;
use road::Road;
use sender::Sender;
use site::Site;
use story::{STEPS, Story};

const PUBLIC_PORT: u16 = 8080;
const ADMIN_PORT: u16 = 8081;

/// Play the story of a webhook on loopback, with no file and no server, then stay up to be tried
#[derive(Debug, Args)]
pub(super) struct Playground {
    /// Play the story and exit: 0 if every step came out as it must, else 1
    #[arg(long)]
    once: bool,
    /// Where to listen, on loopback. Unset: 127.0.0.1:8080, or a free port when that is taken
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Keep the database in this file. Unset: in a temporary directory that is removed at the end
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

/// Why the playground could not go on.
#[derive(Debug, thiserror::Error)]
enum PlaygroundError {
    #[error(
        "{0} can be reached from other machines, and the playground takes unsigned deliveries; use 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    #[error("{address} cannot be listened on; name another with --listen")]
    AddressTaken {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("the playground's files cannot be written")]
    Files(#[source] io::Error),
    #[error("a process of the story cannot be run")]
    Process(#[source] io::Error),
    #[error("a process of the story did not get ready; the last it said:\n{last}")]
    NotReady { last: String },
    #[error("the database cannot be read")]
    Database(#[from] sqlx::Error),
    #[error("the sender cannot sign with its secret")]
    Signer(#[source] VerifyConfigError),
    #[error("the sender cannot sign an order")]
    Signature(#[source] SignError),
    #[error("the receiver cannot be reached")]
    Http(#[source] reqwest::Error),
    #[error("the sender's task ended without an answer")]
    SenderLost,
    #[error("the {who} ended by itself ({status}); {} says why", log.display())]
    Ended { who: &'static str, status: ExitStatus, log: PathBuf },
    #[error("the receiver never held its transaction open, so it could not be killed in the middle of one")]
    NeverHeld,
    #[error("the relay never delivered its message, so it could not be killed after it")]
    NeverDelivered,
}

impl Playground {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match self.play(Clock::system()).await {
            Ok(End::AsItMust) => Ok(()),
            Ok(End::Otherwise) => Err(Failure::said()),
            Ok(End::Interrupted) => Err(Failure::new("stopped before the story was told")),
            Err(error) => Err(Failure::new(causes(&error))),
        }
    }

    async fn play(&self, clock: Clock) -> Result<End, PlaygroundError> {
        let stop = stop_signal().map_err(PlaygroundError::Process)?;
        let road = Road::open().await.map_err(PlaygroundError::Process)?;
        let site = Site::create(clock::new_id(), self.database.as_deref(), road.address)
            .map_err(PlaygroundError::Files)?;
        let ended = self.play_at(&site, &road, clock, &stop).await;
        let keep = matches!(ended, Ok(End::Otherwise) | Err(_));
        leave(&site, self.database.is_some(), keep);
        ended
    }

    /// Starts the receiver, tells the story, stays up unless told otherwise, and stops in order.
    async fn play_at(
        &self,
        site: &Site,
        road: &Road,
        clock: Clock,
        stop: &CancellationToken,
    ) -> Result<End, PlaygroundError> {
        let books = Books::open(&site.database).await?;
        let program = std::env::current_exe().map_err(PlaygroundError::Process)?;
        let wanted = self.wanted()?;
        let mut receiver = tokio::select! {
            started = Receiver::start(&program, site, wanted) => started?,
            () = stop.cancelled() => return Ok(End::Interrupted),
        };
        say(&format!(
            "The orders example on http://{}, its database {}.\nWhat senders do to it, and what becomes of it:",
            receiver.addresses.public,
            site.database.display(),
        ));
        let mut relay = Relay::new(&program, site);
        let story = Story {
            sender: Sender::new(site.shop_secret.clone(), clock.clone())?,
            forger: Sender::new(site::new_secret(), clock)?,
            receiver: &mut receiver,
            books,
            relay: &mut relay,
            road,
            progress: Progress::start(),
        };
        let mut ended = tokio::select! {
            told = tell(story) => told,
            () = stop.cancelled() => Ok(End::Interrupted),
        };
        if let (Ok(End::AsItMust | End::Otherwise), false) = (&ended, self.once) {
            say(&guide::text(&program, site, receiver.addresses).map_err(PlaygroundError::Files)?);
            tokio::select! {
                error = stay_up(&mut receiver, &mut relay, site) => ended = Err(error),
                () = stop.cancelled() => {}
            }
        }
        relay.stop().await?;
        receiver.stop().await?;
        ended
    }

    /// The usual ports, or free ones when somebody else has or takes those.
    fn wanted(&self) -> Result<Wanted, PlaygroundError> {
        let free = (Ipv4Addr::LOCALHOST, 0).into();
        Ok(Wanted {
            first: Addresses {
                public: choose_address(self.listen, PUBLIC_PORT)?,
                admin: choose_address(None, ADMIN_PORT)?,
            },
            otherwise: Addresses { public: self.listen.unwrap_or(free), admin: free },
        })
    }
}

/// How a playground ended that did not fail.
#[derive(Clone, Copy, Debug)]
enum End {
    AsItMust,
    /// A step of the story came out otherwise.
    Otherwise,
    /// Told to stop before the story's end.
    Interrupted,
}

/// Where the receiver listens.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    public: SocketAddr,
    admin: SocketAddr,
}

/// Returns only when a process has ended by itself.
async fn stay_up(receiver: &mut Receiver, relay: &mut Relay, site: &Site) -> PlaygroundError {
    let (who, status, log) = tokio::select! {
        status = receiver.ended() => ("receiver", status, site.log()),
        status = relay.ended() => ("relay", status, site.relay_log()),
    };
    match status {
        Ok(status) => PlaygroundError::Ended { who, status, log },
        Err(error) => PlaygroundError::Process(error),
    }
}

/// Plays the story and prints it.
async fn tell(story: Story<'_>) -> Result<End, PlaygroundError> {
    let (lines, stopped) = story.play().await;
    say(&table::render(&lines, stdout().is_terminal()));
    if let Some(error) = stopped {
        return Err(error);
    }
    let failed = lines.iter().filter(|line| line.wanted.is_some()).count();
    if failed == 0 {
        say(&format!("All {STEPS} steps came out as they must: nothing lost, nothing twice."));
        return Ok(End::AsItMust);
    }
    say(&format!("{failed} of {STEPS} steps did not come out as they must."));
    Ok(End::Otherwise)
}

/// Removes the files, or says where they are.
fn leave(site: &Site, database_stays: bool, keep: bool) {
    let directory = site.directory().display();
    if keep {
        eprintln!(
            "The playground's files are kept in {directory}: receiver.log and relay.log say what happened."
        );
    } else if let Err(error) = site.remove() {
        eprintln!("{directory} could not be removed: {error}");
    } else if database_stays {
        eprintln!("The database stays in {}.", site.database.display());
    }
}

/// Cancelled by Ctrl-C, SIGTERM, or the terminal's end.
fn stop_signal() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let told = stop.clone();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

fn say(text: &str) {
    // Nobody may be reading (`| head`); the exit code still counts.
    let _unheard = writeln!(stdout(), "{text}");
}
