//! What every kind of broker does for a source: hands out messages, and hears when one is done with.

use std::time::Duration;

use async_trait::async_trait;

use crate::event::RawRequest;

/// A queue of a broker.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Connects and asks for messages.
    ///
    /// # Errors
    /// Why it cannot, in words; it may be tried again.
    async fn open(&self) -> Result<Box<dyn Subscription>, String>;

    /// Whether messages could be taken, without taking any; what is there, in words.
    ///
    /// # Errors
    /// Why they could not, in words.
    async fn probe(&self) -> Result<String, String>;
}

/// A queue that hands out messages.
#[async_trait]
pub trait Subscription: Send {
    /// Waits for the next message. May be dropped while it waits without losing one.
    ///
    /// # Errors
    /// Why there will be no more: connect again. What was handed out and not acknowledged comes again.
    async fn next(&mut self) -> Result<Taken, String>;

    /// Asks for no more messages. Those handed out can still be acknowledged.
    async fn stop(&mut self);

    /// Ends the connection. What was not acknowledged comes again, to whoever asks.
    async fn close(self: Box<Self>);
}

/// A message that was handed out.
pub struct Taken {
    /// As the envelope reads it: properties and headers of the message are headers.
    pub request: RawRequest,
    pub receipt: Box<dyn Receipt>,
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The right to acknowledge one message.
#[async_trait]
pub trait Receipt: Send + Sync {
    /// Tells the broker to forget the message.
    ///
    /// # Errors
    /// Why it could not be told: the message comes again.
    async fn acknowledge(self: Box<Self>) -> Result<(), String>;

    /// How often the broker must hear that the message is still being worked on, so that it does not
    /// come again.
    fn keep_every(&self) -> Option<Duration> {
        None
    }

    /// Says so.
    async fn keep(&self) {}
}
