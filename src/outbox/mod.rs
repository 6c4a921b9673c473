//! The outbox: what must go on to another system goes on, in order, and is never lost.
//!
//! A message is written in the transaction of the change that causes it ([`enqueue`], a `forward`
//! handler, or any program that inserts into the table). After the commit a relay claims it, delivers
//! it with no transaction open, and writes what became of it. Between the delivery and that note the
//! process may die: then the message is delivered again, under the same id. *At least once*, never
//! less; the receiver's dedup makes it once.
//!
//! In the order of a message's way: [`forward`] writes, [`lane`] claims (`claims`) and delivers as far
//! as `gate` lets it, [`destination`] is where to, [`verdict`] decides what follows from an answer, `settler` notes it, [`relay`] keeps
//! all of it running.

#[cfg(feature = "amqp")]
pub mod amqp;
pub mod backoff;
pub mod breaker;
mod claims;
pub mod destination;
pub mod forward;
mod gate;
mod hints;
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod labels;
pub mod lane;
#[cfg(feature = "nats")]
pub mod nats;
pub mod pace;
mod probe;
pub mod relay;
pub mod route;
mod settler;
pub mod verdict;

use uuid::Uuid;

use crate::clock::{self, Clock};
use crate::handler::HandlerConnection;
use crate::store::{NewMessage, postgres, sqlite};

pub use forward::Forward;
pub use hints::Hints;

/// A message as Rust code writes it. `Message::new("crm", payload)` and what else is needed.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The receiver's `Idempotency-Key`, on every attempt the same.
    pub id: Uuid,
    pub destination: String,
    /// Messages of one aggregate leave in the order in which they were written; without, there is no
    /// order and no waiting.
    pub aggregate_id: Option<String>,
    pub event_type: String,
    pub content_type: String,
    pub headers: Vec<(String, String)>,
    pub payload: Vec<u8>,
    /// W3C trace context to carry on.
    pub traceparent: Option<String>,
}

impl Message {
    /// A JSON message without an aggregate, under a new id.
    pub fn new(destination: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            id: clock::new_id(),
            destination: destination.into(),
            aggregate_id: None,
            event_type: String::new(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            payload: payload.into(),
            traceparent: None,
        }
    }
}

impl std::fmt::Debug for Message {
    /// Neither body nor header values reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({} for {}, {} bytes)", self.id, self.destination, self.payload.len())
    }
}

/// Writes a message in the caller's open transaction: it exists when that transaction commits, and
/// not otherwise. Returns the message's id.
///
/// # Errors
/// The database's, as the caller's own statements would get it.
pub async fn enqueue(connection: &mut HandlerConnection<'_>, message: &Message) -> Result<Uuid, sqlx::Error> {
    let headers: serde_json::Map<String, serde_json::Value> =
        message.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let headers = serde_json::Value::Object(headers).to_string();
    let new = NewMessage {
        id: message.id,
        destination: &message.destination,
        aggregate_id: message.aggregate_id.as_deref(),
        event_type: &message.event_type,
        content_type: &message.content_type,
        headers: &headers,
        payload: &message.payload,
        traceparent: message.traceparent.as_deref(),
        hops: 0,
    };
    match connection {
        HandlerConnection::Postgres(connection) => postgres::outbox::enqueue_one(connection, new).await?,
        HandlerConnection::Sqlite(connection) => {
            sqlite::outbox::enqueue_one(connection, new, Clock::system().now()).await?;
        }
    }
    Ok(message.id)
}
