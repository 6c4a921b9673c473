//! `DELETE /api/v1/dead-letters/{id}`: remove a dead letter without applying it.

use actix_web::HttpResponse;
use actix_web::web::{Data, Path};
use uuid::Uuid;

use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;
use crate::problem::Problem;

/// Removes a dead letter without applying it. The event stays refused.
#[utoipa::path(
    delete,
    path = "/api/v1/dead-letters/{id}",
    tag = "dead letters",
    security(("token" = [])),
    params(("id" = Uuid, Path, description = "The dead letter's id.")),
    responses(
        (status = 204, description = "The dead letter is gone."),
        (status = 404, description = "There is no such dead letter.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn discard(
    state: Data<ServerState>,
    id: Path<Uuid>,
) -> Result<HttpResponse, Failure> {
    if state.services.store.discard_dead_letters(&[*id]).await? == 0 {
        return Err(Problem::NotFound.into());
    }
    tracing::info!(dead_letter.id = %id, "an operator discarded a dead letter");
    Ok(HttpResponse::NoContent().finish())
}
