//! `GET /api/v1/events/{event_id}`: what happened to an event.

use actix_web::web::{Data, Json, Path, Query};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::admin::dead_letters::DeadLetterSummary;
use crate::http::admin::deliveries::DeliveryView;
use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;
use crate::problem::Problem;
use crate::store::outbox::{MessageRecord, carried_on};
use crate::store::{DeadLetterFilter, EventRecord, LedgerFilter};

/// Most deliveries of the event that are shown, the newest.
const MAX_DELIVERIES: u32 = 100;

/// Most dead letters that are shown: one for each consumer.
const MAX_DEAD_LETTERS: u32 = 20;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct EventQuery {
    /// Only in this dedup scope; in all of them unless set.
    consumer: Option<String>,
}

/// Everything that is known of an event id.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventHistory {
    /// What the inbox holds: one entry for each consumer that saw the event.
    events: Vec<EventView>,
    /// The newest deliveries that carried it, newest first, duplicates included.
    deliveries: Vec<DeliveryView>,
    /// Kept for a person because it could not be applied.
    dead_letters: Vec<DeadLetterSummary>,
    /// What carries it on, one entry for each forward handler. Sent ones for as long as they are kept.
    messages: Vec<MessageView>,
}

/// A message of the outbox that carries the event on.
#[derive(Debug, Serialize, ToSchema)]
struct MessageView {
    id: Uuid,
    destination: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<String>,
    #[schema(example = "sent")]
    state: &'static str,
    attempts: u32,
    created_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_at: Option<DateTime<Utc>>,
    /// When it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// What the inbox holds of an event.
#[derive(Debug, Serialize, ToSchema)]
struct EventView {
    consumer: String,
    event_id: String,
    /// The source whose delivery was processed.
    source: String,
    event_type: String,
    #[schema(example = "applied")]
    state: &'static str,
    /// The status of the stored answer.
    status: u16,
    /// When it happened, in the sender's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurred_at: Option<DateTime<Utc>>,
    processed_at: DateTime<Utc>,
}

/// What happened to an event: inbox, ledger, dead letters and outbox together.
#[utoipa::path(
    get,
    path = "/api/v1/events/{event_id}",
    tag = "events",
    security(("token" = [])),
    params(
        ("event_id" = String, Path, description = "The event id as the sender wrote it, percent-encoded."),
        EventQuery,
    ),
    responses(
        (status = 200, description = "Everything that is known of the event.", body = EventHistory),
        (status = 404, description = "Nothing is known of the event.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn show(
    state: Data<ServerState>,
    event_id: Path<String>,
    query: Query<EventQuery>,
) -> Result<Json<EventHistory>, Failure> {
    let event_id = event_id.into_inner();
    let wanted = query.into_inner().consumer;
    let consumers = wanted.clone().map_or_else(|| state.sources.consumers(), |consumer| vec![consumer]);
    let store = &*state.services.store;
    let events = store.events(&consumers, &event_id).await?;
    let ledger =
        LedgerFilter { event_id: Some(event_id.clone()), limit: MAX_DELIVERIES, ..LedgerFilter::default() };
    let mut deliveries = store.deliveries(&ledger).await?;
    let buried =
        DeadLetterFilter { event_id: Some(event_id), limit: MAX_DEAD_LETTERS, ..DeadLetterFilter::default() };
    let mut dead_letters = store.dead_letters(&buried).await?;
    if let Some(consumer) = wanted {
        deliveries
            .retain(|entry| state.sources.find(&entry.source).is_some_and(|s| *s.consumer == *consumer));
        dead_letters.retain(|letter| *letter.key.consumer == *consumer);
    }
    if events.is_empty() && deliveries.is_empty() && dead_letters.is_empty() {
        return Err(Problem::NotFound.into());
    }
    let messages = carried_on(store, &events).await?;
    Ok(Json(EventHistory {
        events: events.into_iter().map(EventView::from).collect(),
        deliveries: deliveries.into_iter().map(DeliveryView::from).collect(),
        dead_letters: dead_letters.iter().map(DeadLetterSummary::from).collect(),
        messages: messages.into_iter().map(|(_, message)| MessageView::from(message)).collect(),
    }))
}

impl From<EventRecord> for EventView {
    fn from(record: EventRecord) -> Self {
        Self {
            consumer: record.key.consumer.to_string(),
            event_id: record.key.event_id.to_string(),
            source: record.source,
            event_type: record.event_type,
            state: record.state.as_str(),
            status: record.status,
            occurred_at: record.occurred_at,
            processed_at: record.processed_at,
        }
    }
}

impl From<MessageRecord> for MessageView {
    fn from(record: MessageRecord) -> Self {
        Self {
            id: record.id,
            destination: record.destination,
            aggregate_id: record.aggregate_id,
            state: record.state.as_str(),
            attempts: record.attempts,
            created_at: record.created_at,
            sent_at: record.sent_at,
            dead_at: record.dead_at,
            last_status: record.last_status,
            last_error: record.last_error,
        }
    }
}
