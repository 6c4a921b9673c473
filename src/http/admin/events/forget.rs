//! `DELETE /api/v1/events/{consumer}/{event_id}`: make an event new again.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::{Data, Path};

use crate::event::EventKey;
use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;
use crate::problem::Problem;

/// Forgets an event: its next delivery is new, and takes effect again. What it has changed stays.
#[utoipa::path(
    delete,
    path = "/api/v1/events/{consumer}/{event_id}",
    tag = "events",
    security(("token" = [])),
    params(
        ("consumer" = String, Path, description = "The dedup scope."),
        ("event_id" = String, Path, description = "The event id as the sender wrote it, percent-encoded."),
    ),
    responses(
        (status = 204, description = "The event is forgotten."),
        (status = 404, description = "The inbox does not hold the event.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn forget(
    state: Data<ServerState>,
    path: Path<(String, String)>,
) -> Result<HttpResponse, Failure> {
    let (consumer, event_id) = path.into_inner();
    let key = EventKey { consumer: Arc::from(consumer), event_id: Arc::from(event_id) };
    if !state.services.inbox.forget(&key).await? {
        return Err(Problem::NotFound.into());
    }
    tracing::info!(event.consumer = %key.consumer, event.id = %key.event_id, "an operator made an event new again");
    Ok(HttpResponse::NoContent().finish())
}
