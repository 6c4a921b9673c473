//! `GET /api/v1/dead-letters`: what waits for a person, oldest first.

use actix_web::web::{Data, Json, Query};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::admin::dead_letters::DeadLetterSummary;
use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;
use crate::store::DeadLetterFilter;

const DEFAULT_PAGE: u32 = 20;

/// Small, because the store reads each letter with its body.
const MAX_PAGE: u32 = 50;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct DeadLettersQuery {
    /// Only this source's.
    source: Option<String>,
    /// Only of this event.
    event_id: Option<String>,
    /// The next page: the `next` of the page before.
    after: Option<Uuid>,
    /// Most letters to return, 1 to 50. 20 unless set.
    #[param(minimum = 1, maximum = 50)]
    limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DeadLetterList {
    dead_letters: Vec<DeadLetterSummary>,
    /// Pass it as `after` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Uuid>,
}

/// What waits for a person, oldest first.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters",
    tag = "dead letters",
    security(("token" = [])),
    params(DeadLettersQuery),
    responses(
        (status = 200, description = "Dead letters, without their bodies.", body = DeadLetterList),
        (status = 400, description = "The query cannot be read.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list(
    state: Data<ServerState>,
    query: Query<DeadLettersQuery>,
) -> Result<Json<DeadLetterList>, Failure> {
    let query = query.into_inner();
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let filter = DeadLetterFilter {
        source: query.source,
        event_id: query.event_id,
        id: None,
        after: query.after,
        limit,
    };
    let letters = state.services.store.dead_letters(&filter).await?;
    let is_full = letters.len() >= limit as usize;
    Ok(Json(DeadLetterList {
        next: letters.last().filter(|_| is_full).map(|letter| letter.id),
        dead_letters: letters.iter().map(DeadLetterSummary::from).collect(),
    }))
}
