//! Dead letters: events that were kept for a person.

pub(in crate::http) mod discard;
pub(in crate::http) mod list;
pub(in crate::http) mod retry;
pub(in crate::http) mod show;

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::admin::failure::Failure;
use crate::problem::Problem;
use crate::store::{DeadLetter, DeadLetterFilter, Store};

/// A dead letter without the request it came in.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DeadLetterSummary {
    id: Uuid,
    source: String,
    consumer: String,
    event_id: String,
    event_type: String,
    #[schema(example = "rejected")]
    cause: &'static str,
    /// Why, in words an operator can act on.
    reason: String,
    /// How often it was tried.
    attempts: u32,
    body_bytes: usize,
    received_at: DateTime<Utc>,
    died_at: DateTime<Utc>,
}

impl From<&DeadLetter> for DeadLetterSummary {
    fn from(letter: &DeadLetter) -> Self {
        Self {
            id: letter.id,
            source: letter.source.clone(),
            consumer: letter.key.consumer.to_string(),
            event_id: letter.key.event_id.to_string(),
            event_type: letter.event_type.clone(),
            cause: letter.cause.as_str(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
            body_bytes: letter.body.len(),
            received_at: letter.received_at,
            died_at: letter.died_at,
        }
    }
}

/// The dead letter of this id.
async fn find(store: &dyn Store, id: Uuid) -> Result<DeadLetter, Failure> {
    let filter = DeadLetterFilter { id: Some(id), limit: 1, ..DeadLetterFilter::default() };
    store.dead_letters(&filter).await?.pop().ok_or_else(|| Problem::NotFound.into())
}
