//! The outbox, as verbs: what a relay, a sender and an operator do with messages.
//!
//! A claim is a short transaction that gives messages a lease and a token; whatever is written about
//! them later names that token, and changes nothing once somebody else holds the lease. One message
//! of an aggregate is out at a time, in the order of `sequence`. Knows neither destinations nor
//! policies: what becomes of a failed attempt is decided in `outbox::verdict`.

mod origin;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::StoreError;

pub use origin::{EVENT_ID_HEADER, OriginFilter, SOURCE_HEADER, carried_on, origin_headers};

/// What the store keeps of messages that go on.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    // What a relay does

    /// Claims what is due for one destination, in a transaction of its own. A claim that is
    /// abandoned ends with its lease.
    async fn claim_messages(&self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError>;
    /// Lengthens leases from now; returns the messages whose lease is still held.
    async fn extend_leases(&self, held: &[Lease], lease: Duration) -> Result<Vec<Uuid>, StoreError>;
    /// Writes what became of attempts. Whoever does not hold the lease any more changes nothing.
    async fn settle_messages(&self, settlements: &[Settlement]) -> Result<Settled, StoreError>;
    /// Gives back what was claimed and not tried.
    async fn release_messages(&self, held: &[Lease]) -> Result<(), StoreError>;
    /// Frees messages that wait for one that is not there any more (somebody deleted it by hand);
    /// returns how many. Such a message would wait for ever.
    async fn free_orphans(&self, destination: &str) -> Result<u64, StoreError>;
    /// Hints that something was written; `None` where the database cannot give any.
    async fn outbox_hints(&self) -> Result<Option<Box<dyn OutboxHints>>, StoreError>;

    // What relays tell each other of destinations

    /// The destinations there is something to tell of.
    async fn destination_states(&self) -> Result<Vec<DestinationState>, StoreError>;
    async fn pause_destination(&self, name: &str, reason: &str) -> Result<(), StoreError>;
    /// Ends a pause and closes an open breaker; false when there was neither.
    async fn resume_destination(&self, name: &str) -> Result<bool, StoreError>;
    async fn open_breaker(&self, name: &str, pause: Duration, reason: &str) -> Result<(), StoreError>;
    async fn close_breaker(&self, name: &str) -> Result<(), StoreError>;

    // What an operator sees and does

    /// What waits, by destination; those without anything unsent are left out.
    async fn backlog(&self) -> Result<Vec<Backlog>, StoreError>;
    /// Messages in the order of their sequence.
    async fn messages(&self, filter: &MessageFilter) -> Result<Vec<MessageRecord>, StoreError>;
    async fn count_messages(&self, filter: &MessageFilter) -> Result<u64, StoreError>;
    /// What forward handlers wrote for one event, in the order of its sequence.
    async fn messages_of_event(&self, event: &OriginFilter<'_>) -> Result<Vec<MessageRecord>, StoreError>;
    /// The body of a message. `None`: there is no such message.
    async fn message_payload(&self, id: Uuid) -> Result<Option<Bytes>, StoreError>;
    /// The failed attempts of a message, oldest first.
    async fn message_attempts(&self, id: Uuid) -> Result<Vec<AttemptRecord>, StoreError>;
    /// Tries messages again at once that were given up or wait; returns how many. Their order stays.
    async fn revive_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError>;
    /// Deletes messages that were not sent; returns how many. What waited for them goes on.
    async fn discard_messages(&self, ids: &[Uuid]) -> Result<u64, StoreError>;
}

/// Waits for the next hint: the name of a destination something was written for.
#[async_trait]
pub trait OutboxHints: Send {
    /// # Errors
    /// When the connection is lost: ask the store for another.
    async fn next(&mut self) -> Result<String, StoreError>;
}

/// A message to write into the outbox.
#[derive(Clone, Debug)]
pub struct NewMessage<'a> {
    /// The receiver's `Idempotency-Key`.
    pub id: Uuid,
    pub destination: &'a str,
    /// Messages of one aggregate leave in order; without, there is no order and no waiting.
    pub aggregate_id: Option<&'a str>,
    pub event_type: &'a str,
    pub content_type: &'a str,
    /// A JSON object of texts.
    pub headers: &'a str,
    pub payload: &'a [u8],
    pub traceparent: Option<&'a str>,
    /// How many hooklatches it has come through.
    pub hops: u16,
}

/// What to claim.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    pub destination: &'a str,
    /// Most messages that were never tried …
    pub most_new: usize,
    /// … and most that were: neither starves the other.
    pub most_retries: usize,
    /// New for every claim.
    pub token: Uuid,
    pub lease: Duration,
}

/// What a claim found.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// In the order of their sequence.
    pub messages: Vec<Message>,
    /// Messages that were put aside, because they wait for others.
    pub parked: usize,
    /// Messages among them whose last lease ended without a word.
    pub expired: u64,
}

/// A claimed message.
#[derive(Clone)]
pub struct Message {
    pub id: Uuid,
    pub aggregate_id: Option<String>,
    pub event_type: String,
    pub content_type: String,
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
    pub traceparent: Option<String>,
    pub hops: u16,
    /// Attempts, this one included.
    pub attempts: u32,
    /// How old it was when it was claimed.
    pub age: Duration,
}

impl std::fmt::Debug for Message {
    /// Neither body nor header values reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({}, attempt {}, {} bytes)", self.id, self.attempts, self.payload.len())
    }
}

/// A claim on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: Uuid,
    pub token: Uuid,
}

/// What became of an attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub lease: Lease,
    pub fate: MessageFate,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Why it failed; `None` when it did not.
    pub error: Option<String>,
    /// The first bytes of the answer.
    pub answer: Bytes,
    /// How long the answer was.
    pub answer_bytes: u64,
    pub latency: Duration,
}

/// What is to happen to a message after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    Sent,
    /// Again, after this pause.
    Retry(Duration),
    /// Given up; later messages of its aggregate go on.
    Dead,
    /// Given up; later messages of its aggregate wait for a person.
    Blocking,
}

impl MessageFate {
    /// The state of the row.
    #[must_use]
    pub fn state(self) -> MessageState {
        match self {
            Self::Sent => MessageState::Sent,
            Self::Retry(_) => MessageState::Retry,
            Self::Dead => MessageState::Dead,
            Self::Blocking => MessageState::Blocking,
        }
    }

    pub(super) fn pause(self) -> Duration {
        match self {
            Self::Retry(pause) => pause,
            Self::Sent | Self::Dead | Self::Blocking => Duration::ZERO,
        }
    }
}

/// What a settlement changed.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// The messages whose lease was still held.
    pub ids: Vec<Uuid>,
    /// A message that waited for one of them can be claimed now.
    pub unparked: bool,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// Never tried.
    New,
    /// To be tried again, or being tried.
    Retry,
    /// Waits for an earlier message of its aggregate.
    Parked,
    Sent,
    /// Given up.
    Dead,
    /// Given up, and holds its aggregate.
    Blocking,
}

impl MessageState {
    pub const ALL: [Self; 6] = [Self::New, Self::Retry, Self::Parked, Self::Sent, Self::Dead, Self::Blocking];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Retry => "retry",
            Self::Parked => "parked",
            Self::Sent => "sent",
            Self::Dead => "dead",
            Self::Blocking => "blocking",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What is known of a destination beside its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationState {
    pub name: String,
    /// Set while a person, or the destination's own 410, keeps messages back.
    pub paused_at: Option<DateTime<Utc>>,
    pub pause_reason: Option<String>,
    /// How much longer a breaker keeps messages back; zero: it does not.
    pub open_for: Duration,
    pub open_reason: Option<String>,
}

/// What waits for a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    pub destination: String,
    pub unsent: u64,
    /// Messages that were given up, those that hold their aggregate included.
    pub dead: u64,
    /// Age of the oldest that is not sent.
    pub oldest: Duration,
    /// 95th percentile of the ages of those that are not sent: one in twenty is older.
    pub age_p95: Duration,
}

/// How many unsent messages are older than the one at the 95th percentile of age (the nearest rank).
pub(super) fn older_than_p95(unsent: u64) -> u64 {
    const ONE_IN: u64 = 20;
    unsent / ONE_IN
}

/// Which messages an operator means.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    pub destination: Option<String>,
    /// `None`: any.
    pub states: Option<Vec<MessageState>>,
    pub aggregate_id: Option<String>,
    /// `None`: any.
    pub ids: Option<Vec<Uuid>>,
    /// A page starts after the last sequence of the one before.
    pub after: Option<i64>,
    /// Does not count for counting.
    pub limit: u32,
}

/// A message, as an operator sees it: all but its body.
#[derive(Clone, Debug)]
pub struct MessageRecord {
    pub id: Uuid,
    pub destination: String,
    pub aggregate_id: Option<String>,
    pub sequence: i64,
    pub event_type: String,
    pub content_type: String,
    pub headers: Vec<(String, String)>,
    pub traceparent: Option<String>,
    pub hops: u16,
    pub created_at: DateTime<Utc>,
    pub state: MessageState,
    pub next_attempt_at: DateTime<Utc>,
    pub attempts: u32,
    pub leased_until: Option<DateTime<Utc>>,
    pub sent_at: Option<DateTime<Utc>>,
    pub dead_at: Option<DateTime<Utc>>,
    pub last_status: Option<u16>,
    pub last_error: Option<String>,
    pub answer_bytes: Option<u64>,
    pub payload_bytes: u64,
}

/// A failed attempt.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    pub attempt: u32,
    pub ended_at: DateTime<Utc>,
    pub latency: Duration,
    pub status: Option<u16>,
    pub error: String,
    /// The first bytes of the answer.
    pub answer: Bytes,
    pub answer_bytes: u64,
}

/// The name under which all of a message's headers stand, as they were written, where they are no JSON that
/// can be read: a database may take more for an object than others do. No transport can send it.
pub const UNREADABLE_HEADERS: &str = "no JSON object that can be read";

/// Header names and values from the JSON object that senders write. What is no text is written as
/// JSON, so that a number needs no quotes. Never fails: one message must not hold back those that are
/// claimed or listed with it.
pub(super) fn read_headers(json: &str) -> Vec<(String, String)> {
    use serde_json::Value;
    match serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json) {
        Ok(headers) => {
            let text = |raw: Box<RawValue>| match serde_json::from_str(raw.get()) {
                Ok(Value::String(text)) => text,
                Ok(other) => other.to_string(),
                // A number that is too large, for example.
                Err(_) => raw.get().to_owned(),
            };
            headers.into_iter().map(|(name, value)| (name, text(value))).collect()
        }
        Err(_) => vec![(UNREADABLE_HEADERS.to_owned(), json.to_owned())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_far_as_they_can_be() {
        let read =
            |json: &str| read_headers(json).into_iter().map(|(n, v)| format!("{n}: {v}")).collect::<Vec<_>>();
        assert_eq!(
            read(r#"{"x-a": "b", "n": 7, "o": {"p": [1, null]}}"#),
            ["n: 7", r#"o: {"p":[1,null]}"#, "x-a: b"]
        );
        assert_eq!(read(r#"{"n": 1e999, "t": "\ud800"}"#), ["n: 1e999", r#"t: "\ud800""#]);
        for unreadable in ["{a: 1}", r#"{"\ud800": 1}"#, "[]", ""] {
            assert_eq!(read(unreadable), [format!("{UNREADABLE_HEADERS}: {unreadable}")]);
        }
    }
}
