//! The second half of the story: an order that goes on to the packing station, through the outbox.
//!
//! The relay is killed when the packing station has taken the message and the relay does not know: its
//! answer is lost on the road.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::inbox::outcome::Outcome;

use super::PlaygroundError;
use super::books::Onward;
use super::sender::{Order, PLAYGROUND};
use super::story::{Line, POLL, Story, unless};

/// How long a message may take to arrive; after a kill its lease has to end first.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

impl Story<'_> {
    /// The three steps; returns the order.
    pub(super) async fn onward(&mut self, lines: &mut Vec<Line>) -> Result<Order, PlaygroundError> {
        let order = self.order(PLAYGROUND, "order_created");
        self.order_and_message(&order, lines).await?;
        self.kill_between_post_and_mark(&order, lines).await?;
        self.second_delivery(&order, lines).await?;
        Ok(order)
    }

    async fn order_and_message(&self, order: &Order, lines: &mut Vec<Line>) -> Result<(), PlaygroundError> {
        self.progress.step("an order that goes on");
        let answer = self.post(order).await?;
        let (effects, onward) = (self.effects(&[order]).await?, self.books.onward(order).await?);
        lines.push(Line {
            step: "an order that goes on",
            sent: "an order, to be forwarded to packing".into(),
            answer: answer.label(),
            effects: format!("{effects}\n{onward}"),
            wanted: unless(
                answer.is(200, Outcome::Applied) && effects.orders == 1 && onward.is(1, 0, 0),
                "200 applied, one order, and a message that waits",
            ),
        });
        Ok(())
    }

    async fn kill_between_post_and_mark(
        &mut self,
        order: &Order,
        lines: &mut Vec<Line>,
    ) -> Result<(), PlaygroundError> {
        self.progress.step("kill -9 the relay between POST and mark");
        self.road.leads_to(self.receiver.addresses.public);
        self.road.lose_answers(true);
        self.relay.start().await?;
        let posted = self.road.has_lost_an_answer(ARRIVES_WITHIN).await;
        self.relay.kill().await?;
        self.road.lose_answers(false);
        if !posted {
            return Err(PlaygroundError::NeverDelivered);
        }
        let onward = self.books.onward(order).await?;
        lines.push(Line {
            step: "kill -9 the relay between POST and mark",
            sent: "the message, by the relay".into(),
            answer: "lost on the way\nrelay killed".into(),
            effects: onward.to_string(),
            wanted: unless(onward.is(1, 0, 1), "one parcel, and a message that still waits"),
        });
        Ok(())
    }

    async fn second_delivery(&mut self, order: &Order, lines: &mut Vec<Line>) -> Result<(), PlaygroundError> {
        const BOTH: [&str; 2] = ["200 applied", "200 replayed"];
        self.progress.step("restart, and the second delivery");
        self.relay.start().await?;
        let deadline = Instant::now() + ARRIVES_WITHIN;
        let (mut onward, mut answers) = self.came_of(order).await?;
        // The ledger, which is where the answers stand, is written a moment after the rest.
        while (onward.sent == 0 || answers.len() < BOTH.len()) && Instant::now() < deadline {
            sleep(POLL).await;
            (onward, answers) = self.came_of(order).await?;
        }
        lines.push(Line {
            step: "restart, and the second delivery",
            sent: "the same message under the same key".into(),
            answer: match answers.split_first() {
                Some((first, rest)) => format!("first: {first}\nnow: {}", rest.join("\n")),
                None => "none".into(),
            },
            effects: onward.to_string(),
            wanted: unless(
                answers == BOTH && onward.is(0, 1, 1),
                "two deliveries, the second replayed; still one parcel, and the message marked as sent",
            ),
        });
        Ok(())
    }

    async fn came_of(&self, order: &Order) -> Result<(Onward, Vec<String>), PlaygroundError> {
        Ok((self.books.onward(order).await?, self.books.packing_answers(order).await?))
    }
}
