//! The relays: three as documents describe them, and hooklatch's. Each runs as a process of its own (this
//! program, told by [`Part`] what to be), so that it can be killed.

use std::env;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use hooklatch::app::{App, Role};
use hooklatch::clock::Clock;
use hooklatch::config::{Config, Environment};
use hooklatch::lifecycle;
use tokio::process::{Child, Command};

use super::database::{Database, Outbox};
use super::{FIFTY, Failure};

/// Longer than any story holds an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a process says before it stands still to be killed.
pub(crate) const STANDS_STILL: &str = "stands still";
const PART: &str = "CRASH_STORIES_PART";
const DATABASE: &str = "CRASH_STORIES_DATABASE";
const RECEIVER: &str = "CRASH_STORIES_RECEIVER";
const STILL_AT: &str = "CRASH_STORIES_STILL_AT";

/// Who brings an event to its receiver, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relay {
    /// None: the application posts after it has committed.
    Direct,
    /// The whole batch in one transaction.
    WholeBatch,
    /// One transaction an event.
    OneByOne,
    /// As before, but the mark is committed before the event is published.
    MarkFirst,
    /// Claims first, delivers with no transaction open, then notes what became of it.
    Hooklatch { in_flight: usize },
}

impl Relay {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Direct => "no outbox",
            Self::WholeBatch => "the whole batch in one transaction",
            Self::OneByOne => "one transaction an event",
            Self::MarkFirst => "mark, then publish",
            Self::Hooklatch { in_flight: 1 } => "claim first (hooklatch), one at a time",
            Self::Hooklatch { .. } => "claim first (hooklatch), 16 at a time",
        }
    }

    pub(crate) fn outbox(self) -> Outbox {
        match self {
            Self::Direct => Outbox::None,
            Self::WholeBatch | Self::OneByOne | Self::MarkFirst => Outbox::Own,
            Self::Hooklatch { .. } => Outbox::Hooklatch,
        }
    }
}

/// What a process of this program is.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) role: Actor,
    pub(crate) database: String,
    pub(crate) receiver: String,
    /// At which event it stands still between its two steps; 0: at none.
    pub(crate) still_at: usize,
}

/// Whom a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The application: commits the order O7, and stands still.
    Application(Outbox),
    Relay(Relay),
}

impl Part {
    /// `None`: the one that tells the stories.
    pub(crate) fn of_this_process() -> Option<Self> {
        let variable = |name| env::var(name).ok();
        Some(Self {
            role: variable(PART)?.parse().ok()?,
            database: variable(DATABASE)?,
            receiver: variable(RECEIVER)?,
            still_at: variable(STILL_AT)?.parse().ok()?,
        })
    }

    /// Starts a process for it, which ends with whoever holds it.
    pub(crate) fn start(&self) -> Result<Child, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.env(PART, self.role.to_string()).env(DATABASE, &self.database);
        command.env(RECEIVER, &self.receiver).env(STILL_AT, self.still_at.to_string());
        // A relay whose POST is refused says so; the story shows it in numbers.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        Ok(command.spawn()?)
    }
}

/// Plays a part to its end, or until killed.
pub(crate) async fn run(part: Part) -> Result<(), Failure> {
    match part.role {
        Actor::Application(outbox) => {
            Database::open(&part.database).await?.place(1, ("O7", "E42"), outbox, true).await?;
            stand_still().await;
            Ok(())
        }
        Actor::Relay(Relay::Hooklatch { in_flight }) => hooklatch(&part, in_flight).await,
        Actor::Relay(Relay::Direct) => Ok(()),
        Actor::Relay(relay) => {
            let mut by_the_book = ByTheBook::open(&part).await?;
            while match relay {
                Relay::WholeBatch => by_the_book.in_one_transaction(FIFTY).await?,
                Relay::MarkFirst => by_the_book.mark_first().await?,
                _ => by_the_book.in_one_transaction(1).await?,
            } {}
            Ok(())
        }
    }
}

/// A relay that fails when a POST does, and is started again by whoever watches over it.
struct ByTheBook {
    database: Database,
    client: reqwest::Client,
    receiver: String,
    still_at: usize,
    posts: usize,
}

impl ByTheBook {
    async fn open(part: &Part) -> Result<Self, Failure> {
        drop(rustls::crypto::ring::default_provider().install_default());
        Ok(Self {
            database: Database::open(&part.database).await?,
            client: reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build()?,
            receiver: part.receiver.clone(),
            still_at: part.still_at,
            posts: 0,
        })
    }

    /// Locks, sends, marks, commits. False: nothing was left to send.
    async fn in_one_transaction(&mut self, most: usize) -> Result<bool, Failure> {
        self.database.begin().await?;
        let pending = self.database.pending(most).await?;
        for (id, payload) in &pending {
            self.post(id, payload).await?;
            self.database.mark(id).await?;
        }
        self.database.commit().await?;
        Ok(!pending.is_empty())
    }

    /// Marks, commits, sends.
    async fn mark_first(&mut self) -> Result<bool, Failure> {
        self.database.begin().await?;
        let pending = self.database.pending(1).await?;
        for (id, _) in &pending {
            self.database.mark(id).await?;
        }
        self.database.commit().await?;
        for (id, payload) in &pending {
            if self.posts + 1 == self.still_at {
                stand_still().await;
            }
            self.post(id, payload).await?;
        }
        Ok(!pending.is_empty())
    }

    async fn post(&mut self, id: &str, payload: &str) -> Result<(), Failure> {
        self.posts += 1;
        let request = self.client.post(&self.receiver).header("idempotency-key", id);
        request.body(payload.to_owned()).send().await?.error_for_status()?;
        Ok(())
    }
}

/// The relay of the library, as `hooklatch relay` runs it.
async fn hooklatch(part: &Part, in_flight: usize) -> Result<(), Failure> {
    // A lease that no busy machine outlasts: it ends when the story says so.
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[database]\nurl = '{}'\n[relay]\nlease = \"10m\"\npoll_every = \"50ms\"\n\
         [[destination]]\nname = \"consumer\"\nurl = \"{}\"\nconcurrency = {in_flight}\nbackoff_first = \"10ms\"\n",
        part.database, part.receiver,
    );
    let nothing_from_outside = Environment::default();
    let config = Config::parse("crash_stories", &text, &nothing_from_outside)?;
    let app = App::build(&config, Vec::new(), &[Role::Relay], Clock::system()).await?;
    Ok(lifecycle::run(app, |_| {}).await?)
}

async fn stand_still() {
    println!("{STANDS_STILL}");
    std::future::pending::<()>().await;
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Application(Outbox::None) => f.write_str("application"),
            Self::Application(Outbox::Own) => f.write_str("application-own"),
            Self::Application(Outbox::Hooklatch) => f.write_str("application-hooklatch"),
            Self::Relay(Relay::Direct) => f.write_str("direct"),
            Self::Relay(Relay::WholeBatch) => f.write_str("whole-batch"),
            Self::Relay(Relay::OneByOne) => f.write_str("one-by-one"),
            Self::Relay(Relay::MarkFirst) => f.write_str("mark-first"),
            Self::Relay(Relay::Hooklatch { in_flight }) => write!(f, "hooklatch-{in_flight}"),
        }
    }
}

impl FromStr for Actor {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        Ok(match text {
            "application" => Self::Application(Outbox::None),
            "application-own" => Self::Application(Outbox::Own),
            "application-hooklatch" => Self::Application(Outbox::Hooklatch),
            "direct" => Self::Relay(Relay::Direct),
            "whole-batch" => Self::Relay(Relay::WholeBatch),
            "one-by-one" => Self::Relay(Relay::OneByOne),
            "mark-first" => Self::Relay(Relay::MarkFirst),
            _ => {
                let in_flight = text.strip_prefix("hooklatch-").ok_or("no such part")?.parse()?;
                Self::Relay(Relay::Hooklatch { in_flight })
            }
        })
    }
}
