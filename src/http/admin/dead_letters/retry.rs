//! `POST /api/v1/dead-letters/{id}/retry`: apply a dead letter again, now that its cause is gone.

use actix_web::web::{Data, Json, Path};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::admin::dead_letters;
use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;
use crate::inbox::outcome::Outcome;
use crate::problem::Problem;

/// What became of the event.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RetryResult {
    /// `applied`, or what else a delivery of the event would have met.
    #[schema(example = "applied")]
    outcome: &'static str,
    /// The status a sender would have got.
    status: u16,
    /// Why, when the event was refused again.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Applies the event again, through the same path as a delivery. A success removes the dead letter,
/// a second failure counts an attempt.
#[utoipa::path(
    post,
    path = "/api/v1/dead-letters/{id}/retry",
    tag = "dead letters",
    security(("token" = [])),
    params(("id" = Uuid, Path, description = "The dead letter's id.")),
    responses(
        (status = 200, description = "The event was tried; `outcome` says what became of it.", body = RetryResult),
        (status = 404, description = "There is no such dead letter.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 409, description = "The source's configuration does not lead to the event any more.",
            body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "The event could not be tried now; nothing has changed.",
            body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn retry(
    state: Data<ServerState>,
    id: Path<Uuid>,
) -> Result<Json<RetryResult>, Failure> {
    let letter = dead_letters::find(&*state.services.store, *id).await?;
    let source = state.sources.find(&letter.source);
    let answer = state
        .services
        .inbox
        .retry(letter, source)
        .await
        .map_err(|error| Failure::with_detail(Problem::NotRetryable, error.to_string()))?;
    tracing::info!(
        dead_letter.id = %id,
        delivery.outcome = answer.outcome.as_str(),
        "an operator tried a dead letter again",
    );
    if answer.outcome == Outcome::Unavailable {
        let reason = answer.reason.unwrap_or_else(|| Problem::Unavailable.title().into());
        return Err(Failure::with_detail(Problem::DatabaseUnavailable, reason));
    }
    Ok(Json(RetryResult {
        outcome: answer.outcome.as_str(),
        status: answer.reply.status,
        reason: answer.reason,
    }))
}
