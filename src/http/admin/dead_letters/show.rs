//! `GET /api/v1/dead-letters/{id}`: one dead letter with the request it came in.

use actix_web::web::{Data, Json, Path};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::admin::dead_letters::{self, DeadLetterSummary};
use crate::http::admin::failure::Failure;
use crate::http::openapi::ProblemDocument;
use crate::http::state::ServerState;

/// Headers that carry credentials: their values are not shown.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// What is shown instead.
const REDACTED: &str = "[secret]";

/// A dead letter with the request it came in.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct DeadLetterDetail {
    #[serde(flatten)]
    summary: DeadLetterSummary,
    /// Path and query, as sent.
    target: String,
    /// Credentials are not shown; bytes that are no UTF-8 are replaced.
    headers: Vec<HeaderView>,
    /// The body when it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The body in base64 when it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct HeaderView {
    name: String,
    value: String,
}

/// One dead letter with the request it came in.
#[utoipa::path(
    get,
    path = "/api/v1/dead-letters/{id}",
    tag = "dead letters",
    security(("token" = [])),
    params(("id" = Uuid, Path, description = "The dead letter's id.")),
    responses(
        (status = 200, description = "The dead letter.", body = DeadLetterDetail),
        (status = 404, description = "There is no such dead letter.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn show(
    state: Data<ServerState>,
    id: Path<Uuid>,
) -> Result<Json<DeadLetterDetail>, Failure> {
    let letter = dead_letters::find(&*state.services.store, *id).await?;
    let text = std::str::from_utf8(&letter.body).ok();
    Ok(Json(DeadLetterDetail {
        summary: DeadLetterSummary::from(&letter),
        body: text.map(str::to_owned),
        body_base64: text.is_none().then(|| STANDARD.encode(&letter.body)),
        headers: letter.headers.iter().map(HeaderView::of).collect(),
        target: letter.target,
    }))
}

impl HeaderView {
    fn of((name, value): (&str, &[u8])) -> Self {
        let value = if CREDENTIALS.contains(&name) {
            REDACTED.into()
        } else {
            String::from_utf8_lossy(value).into_owned()
        };
        Self { name: name.to_owned(), value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let shown = |name: &str| HeaderView::of((name, b"v\xFF")).value;
        assert_eq!(shown("authorization"), "[secret]");
        assert_eq!(shown("cookie"), "[secret]");
        assert_eq!(shown("x-signature"), "v\u{FFFD}");
    }
}
