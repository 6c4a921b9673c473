//! `hooklatch playground`: the orders example on loopback, on a SQLite file of its own, and a story
//! that shows what the receiver promises, played over real HTTP.
//!
//! The receiver is a process of its own (`receiver.rs`), so that the story can kill it. This
//! process only sends, looks into the database, and judges.

mod books;
mod guide;
mod progress;
mod receiver;
mod sender;
mod site;
mod story;
mod table;

use std::io::{self, IsTerminal as _, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Clock};
use crate::signature::{SignError, VerifyConfigError};

use books::Books;
use progress::Progress;
use receiver::{Receiver, choose_address};
use sender::Sender;
use site::Site;
use story::{STEPS, Story};

const PUBLIC_PORT: u16 = 8080;
const ADMIN_PORT: u16 = 8081;

/// Plays the story of an order's webhook, then stays up for you to try.
#[derive(Debug, Args)]
pub struct PlaygroundArgs {
    /// Play the story and exit: 0 if every step came out as it must, else 1.
    #[arg(long)]
    once: bool,
    /// Where to listen, on loopback. Unset: 127.0.0.1:8080, or a free port when that is taken.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Keep the database in this file. Unset: in a temporary directory that is removed at the end.
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

/// Why the playground could not go on.
#[derive(Debug, thiserror::Error)]
pub enum PlaygroundError {
    #[error("{0} can be reached from other machines, and the playground takes unsigned deliveries; use 127.0.0.1")]
    NotLoopback(SocketAddr),
    #[error("{address} cannot be listened on; name another with --listen")]
    AddressTaken {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("the playground's files cannot be written")]
    Files(#[source] io::Error),
    #[error("the receiver cannot be run as a process of its own")]
    Process(#[source] io::Error),
    #[error("the receiver did not start: {what}\n{last}")]
    NotReady { what: String, last: String },
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
    #[error("the receiver ended by itself ({status}); {} says why", log.display())]
    Ended { status: ExitStatus, log: PathBuf },
    #[error("the receiver never held its transaction open, so it could not be killed in the middle of one")]
    NeverHeld,
}

/// Runs the playground to its end.
///
/// # Errors
/// When it could not start, or the story could not go on.
pub async fn run(arguments: PlaygroundArgs, clock: Clock) -> Result<ExitCode, PlaygroundError> {
    let public = choose_address(arguments.listen, PUBLIC_PORT)?;
    let admin = choose_address(None, ADMIN_PORT)?;
    let admin = if admin == public { choose_address(Some((public.ip(), 0).into()), 0)? } else { admin };
    let stop = stop_signal().map_err(PlaygroundError::Process)?;
    let site =
        Site::create(clock::new_id(), arguments.database.as_deref()).map_err(PlaygroundError::Files)?;
    let ended = open(&arguments, &site, Addresses { public, admin }, clock, &stop).await;
    let keep = !matches!(ended, Ok(End::AsItMust | End::ToldToStop));
    leave(&site, arguments.database.is_some(), keep);
    match ended? {
        End::AsItMust | End::ToldToStop => Ok(ExitCode::SUCCESS),
        End::Otherwise => Ok(ExitCode::FAILURE),
    }
}

/// How a playground ended that did not fail.
#[derive(Clone, Copy, Debug)]
enum End {
    AsItMust,
    /// A step of the story came out otherwise.
    Otherwise,
    ToldToStop,
}

/// Where the receiver listens.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    public: SocketAddr,
    admin: SocketAddr,
}

/// Starts the receiver, plays, stays up unless told otherwise, and stops the receiver in order.
async fn open(
    arguments: &PlaygroundArgs,
    site: &Site,
    addresses: Addresses,
    clock: Clock,
    stop: &CancellationToken,
) -> Result<End, PlaygroundError> {
    site.write_config(addresses.public, addresses.admin).map_err(PlaygroundError::Files)?;
    let books = Books::open(&site.database).await?;
    let program = std::env::current_exe().map_err(PlaygroundError::Process)?;
    let starting = Receiver::start(program.clone(), site.config(), site.log(), addresses.public);
    let mut receiver = tokio::select! {
        started = starting => started?,
        () = stop.cancelled() => return Ok(End::ToldToStop),
    };
    let ended = {
        let story = Story {
            sender: Sender::new(addresses.public, site.shop_secret.clone(), clock.clone())?,
            forger: Sender::new(addresses.public, site::new_secret(), clock)?,
            receiver: &mut receiver,
            books,
            progress: Progress::start(),
        };
        tokio::select! {
            told = tell(story) => told,
            () = stop.cancelled() => Ok(End::ToldToStop),
        }
    };
    let ended = match ended {
        Ok(End::AsItMust | End::Otherwise) if !arguments.once => {
            match guide::text(&program, site, addresses) {
                Ok(guide) => println!("\n{guide}"),
                Err(error) => return Err(PlaygroundError::Files(error)),
            }
            tokio::select! {
                status = receiver.ended() => Err(PlaygroundError::Ended {
                    status: status.map_err(PlaygroundError::Process)?,
                    log: site.log(),
                }),
                () = stop.cancelled() => ended,
            }
        }
        other => other,
    };
    receiver.stop().await?;
    ended
}

/// Plays the story and prints it.
async fn tell(story: Story<'_>) -> Result<End, PlaygroundError> {
    let (lines, stopped) = story.play().await;
    println!("{}", table::render(&lines, stdout().is_terminal()));
    if let Some(error) = stopped {
        return Err(error);
    }
    let failed = lines.iter().filter(|line| line.wanted.is_some()).count();
    if failed == 0 {
        println!("All {STEPS} steps came out as they must: nothing lost, nothing twice.");
        return Ok(End::AsItMust);
    }
    println!("{failed} of {STEPS} steps did not come out as they must.");
    Ok(End::Otherwise)
}

/// Removes the files, or says where they are.
fn leave(site: &Site, database_stays: bool, keep: bool) {
    let directory = site.directory().display();
    if keep {
        eprintln!("The playground's files are kept in {directory}: receiver.log says what happened.");
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
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
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
    }
    #[cfg(not(unix))]
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            told.cancel();
        }
    });
    Ok(stop)
}
