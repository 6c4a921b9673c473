//! The one task that publishes on a channel and sorts out what came of each message.
//!
//! *One task*, because a channel numbers messages in the order in which they are published: two tasks
//! would number in one order and send in another. *Sorts out*, because RabbitMQ returns an unroutable
//! message some time before it confirms it, and may confirm others in between or together with it: the
//! client hands the returned message to whichever confirmation comes next. So returned messages are
//! matched by their id, and no confirmation is believed before every other one that had arrived by then
//! has been looked at.

use std::collections::HashSet;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::{mpsc, oneshot};

use crate::broker::amqp;

/// A message to publish.
pub(super) struct Publish {
    /// As in the properties.
    pub id: String,
    pub exchange: ShortString,
    pub routing_key: ShortString,
    pub payload: Bytes,
    pub properties: BasicProperties,
    pub answer: oneshot::Sender<Confirmed>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Confirmed {
    /// It is in a queue.
    Taken,
    /// RabbitMQ has it no more: no queue wanted it.
    Unroutable,
    /// RabbitMQ could not take it.
    TurnedDown,
    /// Nobody knows: the channel or the connection is gone. With RabbitMQ's reply code, if it gave one.
    Lost { code: Option<u16>, reason: String },
}

/// Publishes on one channel.
pub(super) struct Publisher {
    channel: Channel,
    requests: mpsc::Receiver<Publish>,
    flights: Vec<Flight>,
    /// Ids of messages that came back and are not confirmed yet.
    returned: HashSet<String>,
}

/// A message on its way.
struct Flight {
    id: String,
    confirmation: BoxFuture<'static, lapin::Result<Confirmation>>,
    /// What its confirmation said, before returned messages were considered.
    heard: Option<Confirmed>,
    answer: oneshot::Sender<Confirmed>,
}

impl Publisher {
    pub fn new(channel: Channel, requests: mpsc::Receiver<Publish>) -> Self {
        Self { channel, requests, flights: Vec::new(), returned: HashSet::new() }
    }

    /// Until nobody sends requests any more and all messages have landed.
    pub async fn run(mut self) {
        poll_fn(|context| self.step(context)).await;
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_over = loop {
            match self.requests.poll_recv(context) {
                Poll::Ready(Some(publish)) => self.launch(publish),
                Poll::Ready(None) => break true,
                Poll::Pending => break false,
            }
        };
        // Whatever had been heard when the last round began is known when it ends.
        while self.listen(context) {}
        self.land();
        if is_over && self.flights.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn launch(&mut self, publish: Publish) {
        let Publish { id, exchange, routing_key, payload, properties, answer } = publish;
        let channel = self.channel.clone();
        let confirmation = async move {
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            channel.basic_publish(exchange, routing_key, options, &payload, properties).await?.await
        };
        self.flights.push(Flight { id, confirmation: confirmation.boxed(), heard: None, answer });
    }

    /// Looks at every message on its way once; whether anything new was heard.
    fn listen(&mut self, context: &mut Context<'_>) -> bool {
        let mut is_news = false;
        for flight in self.flights.iter_mut().filter(|flight| flight.heard.is_none()) {
            let Poll::Ready(result) = flight.confirmation.poll_unpin(context) else { continue };
            is_news = true;
            let (heard, returned) = read(result);
            flight.heard = Some(heard);
            self.returned.extend(returned);
        }
        is_news
    }

    /// Answers what was heard.
    fn land(&mut self) {
        let returned = &mut self.returned;
        let (landed, flights) =
            std::mem::take(&mut self.flights).into_iter().partition(|flight| flight.heard.is_some());
        self.flights = flights;
        let landed: Vec<Flight> = landed;
        for Flight { id, heard, answer, .. } in landed {
            let came_back = returned.remove(&id);
            let confirmed = match heard {
                Some(Confirmed::Taken) if came_back => Confirmed::Unroutable,
                Some(heard) => heard,
                None => continue,
            };
            // The attempt may have run out of time.
            let _unheard = answer.send(confirmed);
        }
    }
}

/// What a confirmation says of its message, and the id of the message that came back along with it.
fn read(result: lapin::Result<Confirmation>) -> (Confirmed, Option<String>) {
    let confirmation = match result {
        Ok(confirmation) => confirmation,
        Err(error) => {
            let lost = Confirmed::Lost { code: amqp::refusal_code(&error), reason: amqp::explain(&error) };
            return (lost, None);
        }
    };
    let confirmed = if confirmation.is_nack() { Confirmed::TurnedDown } else { Confirmed::Taken };
    let returned = confirmation.take_message();
    let id = returned
        .and_then(|message| message.delivery.properties.message_id().as_ref().map(ToString::to_string));
    (confirmed, id)
}
