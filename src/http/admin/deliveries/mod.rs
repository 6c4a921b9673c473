//! The ledger: what arrived and what became of it.

pub(in crate::http) mod list;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::store::LedgerEntry;

/// One event of a delivery, or a delivery that was refused before its events were known.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DeliveryView {
    /// The `X-Request-Id` of the answer.
    delivery_id: Uuid,
    /// The event's place in the delivery, from 0.
    ordinal: u32,
    received_at: DateTime<Utc>,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<String>,
    /// The `Idempotency-Key` that the sender sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[schema(example = "applied")]
    outcome: &'static str,
    /// The status of the answer.
    status: u16,
    /// From the head of the request to the answer.
    duration_us: u64,
    body_bytes: u32,
    /// The address at the other end of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// Why, for outcomes that need a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Name and value of each header, for deliveries that were refused. What authenticates a sender is
    /// named and not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
}

impl From<LedgerEntry> for DeliveryView {
    fn from(entry: LedgerEntry) -> Self {
        let text = |text: Option<Arc<str>>| text.map(|text| text.to_string());
        Self {
            delivery_id: entry.delivery_id,
            ordinal: entry.ordinal,
            received_at: entry.received_at,
            source: entry.source.to_string(),
            event_id: text(entry.event_id),
            event_type: text(entry.event_type),
            idempotency_key: text(entry.idempotency_key),
            outcome: entry.outcome.as_str(),
            status: entry.status,
            duration_us: u64::try_from(entry.duration.as_micros()).unwrap_or(u64::MAX),
            body_bytes: entry.body_bytes,
            peer: text(entry.peer),
            reason: entry.reason,
            headers: entry.headers,
        }
    }
}
