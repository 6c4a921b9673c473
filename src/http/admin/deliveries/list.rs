//! `GET /api/v1/deliveries`: the ledger, newest first.

use actix_web::web::{Data, Json, Query};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::admin::deliveries::DeliveryView;
use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;
use crate::inbox::outcome::Outcome;
use crate::problem::Problem;
use crate::store::{LedgerEntry, LedgerFilter};

const DEFAULT_PAGE: u32 = 100;
const MAX_PAGE: u32 = 1_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct DeliveriesQuery {
    /// Only this source's.
    source: Option<String>,
    /// Only those that carried this event.
    event_id: Option<String>,
    /// Only those with this outcome.
    #[param(example = "rejected")]
    outcome: Option<String>,
    /// Only those received at or after this time.
    since: Option<DateTime<Utc>>,
    /// The next page: the `next` of the page before.
    before: Option<Uuid>,
    /// Most entries to return, 1 to 1000. 100 unless set.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DeliveryList {
    deliveries: Vec<DeliveryView>,
    /// Pass it as `before` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Uuid>,
}

/// What arrived and what became of it, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/deliveries",
    tag = "deliveries",
    security(("token" = [])),
    params(DeliveriesQuery),
    responses(
        (status = 200, description = "One entry for each event of a delivery.", body = DeliveryList),
        (status = 400, description = "The query cannot be read.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list(
    state: Data<ServerState>,
    query: Query<DeliveriesQuery>,
) -> Result<Json<DeliveryList>, Failure> {
    let query = query.into_inner();
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let filter = LedgerFilter {
        source: query.source,
        event_id: query.event_id,
        outcomes: query.outcome.as_deref().map(read_outcome).transpose()?.into_iter().collect(),
        since: query.since,
        before: query.before,
        limit,
    };
    let entries = state.services.store.deliveries(&filter).await?;
    let (entries, next) = page(entries, limit as usize);
    Ok(Json(DeliveryList { deliveries: entries.into_iter().map(DeliveryView::from).collect(), next }))
}

fn read_outcome(text: &str) -> Result<Outcome, Failure> {
    Outcome::parse(text).ok_or_else(|| {
        let known: Vec<_> = Outcome::ALL.into_iter().map(Outcome::as_str).collect();
        Failure::with_detail(Problem::MalformedRequest, format!("`outcome` is one of {}", known.join(", ")))
    })
}

/// Ends a full page between two deliveries, so that the next one misses no event of either. Only a
/// delivery that fills a page alone is cut.
fn page(mut entries: Vec<LedgerEntry>, limit: usize) -> (Vec<LedgerEntry>, Option<Uuid>) {
    if entries.len() < limit {
        return (entries, None);
    }
    let last = entries.last().map(|entry| entry.delivery_id);
    if let Some(whole) = entries.iter().rposition(|entry| Some(entry.delivery_id) != last) {
        entries.truncate(whole + 1);
    }
    let next = entries.last().map(|entry| entry.delivery_id);
    (entries, next)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(delivery: u128, ordinal: u32) -> LedgerEntry {
        LedgerEntry {
            delivery_id: Uuid::from_u128(delivery),
            ordinal,
            received_at: DateTime::UNIX_EPOCH,
            source: "shop".into(),
            event_id: None,
            event_type: None,
            idempotency_key: None,
            outcome: Outcome::Applied,
            status: 200,
            duration: Duration::ZERO,
            body_bytes: 0,
            peer: None,
            reason: None,
            headers: Vec::new(),
        }
    }

    fn ids(page: &(Vec<LedgerEntry>, Option<Uuid>)) -> (Vec<u128>, Option<u128>) {
        (page.0.iter().map(|entry| entry.delivery_id.as_u128()).collect(), page.1.map(|id| id.as_u128()))
    }

    #[test]
    fn a_page_that_is_not_full_is_the_last() {
        assert_eq!(ids(&page(vec![entry(2, 0), entry(1, 0)], 3)), (vec![2, 1], None));
        assert_eq!(ids(&page(vec![], 3)), (vec![], None));
    }

    #[test]
    fn a_full_page_ends_between_two_deliveries() {
        let entries = vec![entry(3, 0), entry(2, 0), entry(2, 1)];
        assert_eq!(ids(&page(entries, 3)), (vec![3], Some(3)));
    }

    #[test]
    fn a_delivery_that_fills_a_page_alone_is_returned() {
        let entries = vec![entry(3, 0), entry(3, 1)];
        assert_eq!(ids(&page(entries, 2)), (vec![3, 3], Some(3)));
    }
}
