//! One story: orders with their events, a relay, a crash, a second start, and what it cost.

use std::time::Duration;

use hooklatch::app::open_store;
use hooklatch::clock::Clock;
use hooklatch::config::{Config, Environment};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use super::Failure;
use super::database::{Database, Outbox};
use super::receiver::{Receiver, Trouble};
use super::relays::{Actor, Part, Relay, STANDS_STILL};
use super::stage::Stage;

/// No story takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// When things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The receiver refuses a POST.
    Refused,
    /// The relay is killed between its two steps.
    Killed,
}

/// What it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Orders that are in the sender's database.
    pub(crate) orders: usize,
    /// Events that never arrived although their order is there.
    pub(crate) lost: usize,
    pub(crate) posts: usize,
    /// Deliveries that the receiver took.
    pub(crate) taken: usize,
    /// Those of them that it had taken before.
    pub(crate) again: usize,
    pub(crate) effects_unchecked: usize,
    pub(crate) effects_checked: usize,
}

/// `events` orders with an event each; trouble at the POST number `at`; then all goes on.
pub(crate) async fn play(
    stage: &Stage,
    relay: Relay,
    moment: Moment,
    events: usize,
    at: usize,
) -> Result<Cost, Failure> {
    let scene = Scene::set(stage, relay, trouble(relay, moment, at)).await?;
    let mut database = Database::open(&scene.database).await?;
    for number in 1..=events {
        let (order, event) = (format!("O{number}"), format!("E{number}"));
        let names = if events == 1 { ("O7", "E42") } else { (&*order, &*event) };
        database.place(number, names, relay.outbox(), true).await?;
    }
    if moment == Moment::Killed {
        let still_at = if relay == Relay::MarkFirst { at } else { 0 };
        let mut child = scene.start(Actor::Relay(relay), still_at)?;
        if relay == Relay::MarkFirst {
            stands_still(&mut child).await?;
        } else {
            scene.until_unanswered(relay, &mut database, at).await?;
        }
        child.kill().await?;
        scene.receiver.answer();
        if relay.outbox() == Outbox::Hooklatch {
            database.end_leases().await?;
        }
    }
    scene.relay_to_the_end(relay, &mut database).await?;
    scene.end(&mut database).await
}

/// Order and event are written in one transaction, which is rolled back.
pub(crate) async fn rolled_back(stage: &Stage) -> Result<Cost, Failure> {
    let relay = Relay::Hooklatch { in_flight: 1 };
    let scene = Scene::set(stage, relay, Trouble::None).await?;
    let mut database = Database::open(&scene.database).await?;
    database.place(1, ("O7", "E42"), relay.outbox(), false).await?;
    scene.relay_to_the_end(relay, &mut database).await?;
    scene.end(&mut database).await
}

/// The application commits O7 and is killed before anything else happens.
pub(crate) async fn killed_after_commit(stage: &Stage, relay: Relay) -> Result<Cost, Failure> {
    let scene = Scene::set(stage, relay, Trouble::None).await?;
    let mut application = scene.start(Actor::Application(relay.outbox()), 0)?;
    stands_still(&mut application).await?;
    application.kill().await?;
    let mut database = Database::open(&scene.database).await?;
    scene.relay_to_the_end(relay, &mut database).await?;
    scene.end(&mut database).await
}

fn trouble(relay: Relay, moment: Moment, at: usize) -> Trouble {
    match moment {
        Moment::Refused => Trouble::Refused(at),
        // It stands still by itself, before the POST.
        Moment::Killed if relay == Relay::MarkFirst => Trouble::None,
        Moment::Killed => Trouble::Unanswered(at),
    }
}

struct Scene<'a> {
    stage: &'a Stage,
    database: String,
    receiver: Receiver,
}

impl<'a> Scene<'a> {
    async fn set(stage: &'a Stage, relay: Relay, trouble: Trouble) -> Result<Self, Failure> {
        let database = stage.database().await?;
        Database::open(&database).await?.create_tables(relay.outbox()).await?;
        if relay.outbox() == Outbox::Hooklatch {
            // As long as the story may take: others may be busy with the same server.
            let patience = PATIENCE.as_secs();
            let text = format!("[database]\nurl = '{database}'\nacquire_timeout = \"{patience}s\"\n");
            let config = Config::parse("crash_stories", &text, &Environment::default())?;
            let store = open_store(&config.database, Clock::system()).await?;
            store.migrate().await?;
            store.close().await;
        }
        Ok(Self { stage, database, receiver: Receiver::start(trouble).await? })
    }

    fn start(&self, role: Actor, still_at: usize) -> Result<Child, Failure> {
        let (database, receiver) = (self.database.clone(), self.receiver.url.clone());
        Part { role, database, receiver, still_at }.start()
    }

    /// Waits until all that the relay has on its way was taken and waits for its answer, and what came
    /// before is marked: the crash is to cost what it must, and not what happened to be unwritten.
    async fn until_unanswered(
        &self,
        relay: Relay,
        database: &mut Database,
        at: usize,
    ) -> Result<(), Failure> {
        let in_flight = if let Relay::Hooklatch { in_flight } = relay { in_flight } else { 1 };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let marked = match relay {
                Relay::Hooklatch { .. } => database.hooklatch_messages().await?.1 + 1 == at,
                _ => true,
            };
            if marked && self.receiver.unanswered() == in_flight {
                return Ok(());
            }
            before(deadline, "the relay never got as far as it should have")?;
            sleep(POLL).await;
        }
    }

    /// Starts the relay, again if it fails, until nothing waits any more.
    async fn relay_to_the_end(&self, relay: Relay, database: &mut Database) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut child = self.start(Actor::Relay(relay), 0)?;
        loop {
            before(deadline, "the relay did not get to the end")?;
            if relay.outbox() == Outbox::Hooklatch {
                let (all, sent) = database.hooklatch_messages().await?;
                if all == sent {
                    return Ok(child.kill().await?);
                }
                if let Some(status) = child.try_wait()? {
                    return Err(format!("hooklatch's relay ended by itself: {status}").into());
                }
            } else if let Some(status) = child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                child = self.start(Actor::Relay(relay), 0)?;
            }
            sleep(POLL).await;
        }
    }

    async fn end(self, database: &mut Database) -> Result<Cost, Failure> {
        let orders = database.number("SELECT count(*) FROM orders").await?;
        let counted = self.receiver.stop().await?;
        self.stage.remove(&self.database).await?;
        Ok(Cost {
            orders,
            lost: orders.saturating_sub(counted.events),
            posts: counted.posts,
            taken: counted.taken,
            again: counted.taken - counted.events,
            effects_unchecked: counted.effects_unchecked,
            effects_checked: counted.effects_checked,
        })
    }
}

/// Waits until a process says that it stands still.
async fn stands_still(child: &mut Child) -> Result<(), Failure> {
    let stdout = child.stdout.take().ok_or("the process has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    match timeout(PATIENCE, lines.next_line()).await?? {
        Some(line) if line == STANDS_STILL => Ok(()),
        said => Err(format!("the process was to stand still, and said {said:?}").into()),
    }
}

fn before(deadline: Instant, otherwise: &str) -> Result<(), Failure> {
    if Instant::now() < deadline { Ok(()) } else { Err(otherwise.into()) }
}
