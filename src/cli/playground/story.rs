//! The story the playground tells: what senders do to a receiver, and what becomes of it.
//!
//! Each step sends over HTTP, looks into the database past the receiver, and judges both. A step
//! that comes out otherwise is a line of the table with its verdict, not an error; an error means
//! that the story could not go on. What happens to an order that goes on to another system is told in
//! `onward.rs`.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::clock;
use crate::inbox::outcome::Outcome;

use super::PlaygroundError;
use super::books::{Books, Effects};
use super::progress::Progress;
use super::receiver::Receiver;
use super::relay::Relay;
use super::road::Road;
use super::sender::{Answer, Order, PLAYGROUND, SHOP, Sender};

/// Copies of one event in flight at once.
const CROWD: usize = 50;
/// What the orders cost.
const AMOUNT_CENTS: u32 = 4_990;
const OTHER_AMOUNT_CENTS: u32 = 1;
/// So many steps that the slow handler is certainly still counting when the receiver is killed.
const ENDLESS: i64 = 1_000_000_000_000;
/// How long the database must have been held before the kill: the event key and the order are
/// inserted in the first few milliseconds of that.
const HELD: Duration = Duration::from_millis(300);
/// How long to wait for that.
const HELD_WITHIN: Duration = Duration::from_secs(20);
pub(super) const POLL: Duration = Duration::from_millis(20);
/// Steps of the story.
pub(super) const STEPS: usize = 11;

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) step: &'static str,
    pub(super) sent: String,
    pub(super) answer: String,
    pub(super) effects: String,
    /// `None`: it came out as it must. Otherwise what should have come.
    pub(super) wanted: Option<String>,
}

/// The cast.
#[derive(Debug)]
pub(super) struct Story<'a> {
    pub(super) receiver: &'a mut Receiver,
    pub(super) sender: Sender,
    /// Signs with a secret that the receiver does not know.
    pub(super) forger: Sender,
    pub(super) books: Books,
    pub(super) relay: &'a mut Relay,
    /// Between the relay and the packing station.
    pub(super) road: &'a Road,
    pub(super) progress: Progress,
}

impl Story<'_> {
    /// Plays all steps; the lines of those that were played, and what stopped the story, if
    /// anything did.
    pub(super) async fn play(mut self) -> (Vec<Line>, Option<PlaygroundError>) {
        let mut lines = Vec::with_capacity(STEPS);
        let stopped = self.play_into(&mut lines).await.err();
        self.progress.end();
        (lines, stopped)
    }

    async fn play_into(&mut self, lines: &mut Vec<Line>) -> Result<(), PlaygroundError> {
        let order = self.order(SHOP, "order_created");
        let first = self.first_delivery(&order, lines).await?;
        self.the_same_again(&order, &first, lines).await?;
        self.another_body(&order, lines).await?;
        let crowded = self.order(SHOP, "order_created");
        self.crowd(&crowded, lines).await?;
        self.forgery(lines).await?;
        let slow = self.order(PLAYGROUND, "order_slow");
        self.kill_between_insert_and_commit(&slow, lines).await?;
        self.restart_and_retry(&slow, lines).await?;
        let forwarded = self.onward(lines).await?;
        self.all_once_more(&[&order, &crowded, &slow, &forwarded], &first, lines).await
    }

    async fn first_delivery(&self, order: &Order, lines: &mut Vec<Line>) -> Result<Answer, PlaygroundError> {
        self.progress.step("first delivery");
        let answer = self.post(order).await?;
        let effects = self.effects(&[order]).await?;
        lines.push(Line {
            step: "first delivery",
            sent: "an order, signed".into(),
            answer: answer.label(),
            effects: effects.to_string(),
            wanted: unless(
                answer.is(200, Outcome::Applied) && !answer.replayed && effects == takes_effect(1),
                "200 applied, and one order",
            ),
        });
        Ok(answer)
    }

    async fn the_same_again(
        &self,
        order: &Order,
        first: &Answer,
        lines: &mut Vec<Line>,
    ) -> Result<(), PlaygroundError> {
        self.progress.step("the same again");
        let answer = self.post(order).await?;
        let effects = self.effects(&[order]).await?;
        let same = answer.repeats(first);
        lines.push(Line {
            step: "the same again",
            sent: "the same bytes".into(),
            answer: format!("{}\n{}", answer.label(), if same { "byte for byte" } else { "other bytes" }),
            effects: effects.to_string(),
            wanted: unless(
                answer.is(200, Outcome::Replayed) && answer.replayed && same && effects == takes_effect(1),
                "200 replayed with the first answer's bytes, and still one order",
            ),
        });
        Ok(())
    }

    async fn another_body(&self, order: &Order, lines: &mut Vec<Line>) -> Result<(), PlaygroundError> {
        self.progress.step("same key, other body");
        let answer = self.post(&order.with_amount(OTHER_AMOUNT_CENTS)).await?;
        let effects = self.effects(&[order]).await?;
        lines.push(Line {
            step: "same key, other body",
            sent: "another amount".into(),
            answer: answer.label(),
            effects: effects.to_string(),
            wanted: unless(
                answer.is(422, Outcome::Mismatch) && effects == takes_effect(1),
                "422 mismatch, and the order as it was",
            ),
        });
        Ok(())
    }

    async fn crowd(&self, order: &Order, lines: &mut Vec<Line>) -> Result<(), PlaygroundError> {
        self.progress.step("fifty at once");
        let answers: Vec<Answer> =
            join_all((0..CROWD).map(|_| self.post(order))).await.into_iter().collect::<Result<_, _>>()?;
        let count = |outcome| answers.iter().filter(|answer| answer.is(200, outcome)).count();
        let (applied, replayed) = (count(Outcome::Applied), count(Outcome::Replayed));
        let same = answers.iter().all(|answer| answer.repeats(&answers[0]));
        let others = CROWD - applied - replayed;
        let effects = self.effects(&[order]).await?;
        let mut label = format!("200 applied ×{applied}\n200 replayed ×{replayed}");
        if others > 0 {
            label = format!("{label}\nothers ×{others}");
        }
        lines.push(Line {
            step: "fifty at once",
            sent: format!("a new order, {CROWD} times in parallel"),
            answer: label,
            effects: effects.to_string(),
            wanted: unless(
                applied == 1 && others == 0 && same && effects == takes_effect(1),
                "applied once, replayed to all others with the same bytes, and one order",
            ),
        });
        Ok(())
    }

    async fn forgery(&self, lines: &mut Vec<Line>) -> Result<(), PlaygroundError> {
        self.progress.step("forged signature");
        let order = self.order(SHOP, "order_created");
        let answer = self.forger.post(self.receiver.addresses.public, &order).await?;
        let effects = self.effects(&[&order]).await?;
        lines.push(Line {
            step: "forged signature",
            sent: "a new order, signed with another secret".into(),
            answer: answer.label(),
            effects: effects.to_string(),
            wanted: unless(
                answer.is(401, Outcome::Unverified) && effects == takes_effect(0),
                "401 unverified, and nothing stored",
            ),
        });
        Ok(())
    }

    /// Kills the receiver while its transaction is open: after the event key and the order were
    /// inserted, before the commit.
    async fn kill_between_insert_and_commit(
        &mut self,
        order: &Order,
        lines: &mut Vec<Line>,
    ) -> Result<(), PlaygroundError> {
        self.progress.step("kill -9 between insert and commit");
        self.books.set_pace(ENDLESS).await?;
        let sender = self.sender.clone();
        let (receiver, sent) = (self.receiver.addresses.public, order.clone());
        let delivery = tokio::spawn(async move { sender.post(receiver, &sent).await });
        let held = self.wait_until_held().await;
        self.receiver.kill().await?;
        let answer = delivery.await.map_err(|_| PlaygroundError::SenderLost)?;
        held?;
        let effects = self.effects(&[order]).await?;
        lines.push(Line {
            step: "kill -9 between insert and commit",
            sent: "a new order".into(),
            answer: answer.as_ref().map_or_else(|_| "none\nconnection lost".into(), Answer::label),
            effects: effects.to_string(),
            wanted: unless(answer.is_err() && effects == takes_effect(0), "no answer, and nothing stored"),
        });
        Ok(())
    }

    /// Waits until another process has held the database's write lock for [`HELD`] without a break.
    async fn wait_until_held(&self) -> Result<(), PlaygroundError> {
        let deadline = Instant::now() + HELD_WITHIN;
        let mut since = None;
        while Instant::now() < deadline {
            if self.books.is_being_written().await? {
                if since.get_or_insert_with(Instant::now).elapsed() >= HELD {
                    return Ok(());
                }
            } else {
                since = None;
            }
            sleep(POLL).await;
        }
        Err(PlaygroundError::NeverHeld)
    }

    async fn restart_and_retry(
        &mut self,
        order: &Order,
        lines: &mut Vec<Line>,
    ) -> Result<(), PlaygroundError> {
        self.progress.step("restart, and the sender's retry");
        self.books.set_pace(1).await?;
        self.receiver.restart().await?;
        let answer = self.post(order).await?;
        let effects = self.effects(&[order]).await?;
        lines.push(Line {
            step: "restart, and the sender's retry",
            sent: "the same bytes".into(),
            answer: answer.label(),
            effects: effects.to_string(),
            wanted: unless(
                answer.is(200, Outcome::Applied) && effects == takes_effect(1),
                "200 applied, and one order",
            ),
        });
        Ok(())
    }

    async fn all_once_more(
        &self,
        orders: &[&Order],
        first: &Answer,
        lines: &mut Vec<Line>,
    ) -> Result<(), PlaygroundError> {
        self.progress.step("all of it once more");
        let mut answers = Vec::with_capacity(orders.len());
        for order in orders {
            answers.push(self.post(order).await?);
        }
        let replayed = answers.iter().filter(|answer| answer.is(200, Outcome::Replayed)).count();
        let same = answers.first().is_some_and(|answer| answer.repeats(first));
        let effects = self.effects(orders).await?;
        let total = i64::try_from(orders.len()).unwrap_or(i64::MAX);
        lines.push(Line {
            step: "all of it once more",
            sent: format!("all {} orders", orders.len()),
            answer: format!("200 replayed ×{replayed}"),
            effects: effects.to_string(),
            wanted: unless(
                replayed == orders.len() && same && effects == takes_effect(total),
                "each answer replayed, and each order there once",
            ),
        });
        Ok(())
    }

    pub(super) fn order(&self, source: &'static str, event_type: &str) -> Order {
        Order::new(source, event_type, clock::new_id(), AMOUNT_CENTS)
    }

    pub(super) async fn post(&self, order: &Order) -> Result<Answer, PlaygroundError> {
        self.sender.post(self.receiver.addresses.public, order).await
    }

    pub(super) async fn effects(&self, orders: &[&Order]) -> Result<Effects, PlaygroundError> {
        let ids: Vec<&str> = orders.iter().map(|order| order.event_id.as_str()).collect();
        Ok(self.books.effects(&ids).await?)
    }
}

/// What so many applied orders leave in the database.
fn takes_effect(orders: i64) -> Effects {
    Effects { keys: orders, orders, amount_cents: orders * i64::from(AMOUNT_CENTS) }
}

pub(super) fn unless(as_it_must: bool, wanted: &str) -> Option<String> {
    (!as_it_must).then(|| wanted.to_owned())
}
