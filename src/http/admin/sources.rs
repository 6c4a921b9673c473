//! `GET /api/v1/sources`: what is configured, without secrets and statements.

use actix_web::web::{Data, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::handler::Step;
use crate::http::state::ServerState;
use crate::source::{KeyPolicy, Source};

#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SourceList {
    sources: Vec<SourceView>,
}

/// A source, without its secrets.
#[derive(Debug, Serialize, ToSchema)]
struct SourceView {
    name: String,
    /// Where deliveries are posted.
    path: String,
    /// The scope in which an event id may take effect once.
    consumer: String,
    /// Whether the sender must, may or cannot name an `Idempotency-Key`.
    #[schema(value_type = String, example = "optional")]
    idempotency_key: KeyPolicy,
    /// What a success is answered with.
    success_status: u16,
    /// In the order in which they run.
    handlers: Vec<HandlerView>,
}

/// A handler, without its statement.
#[derive(Debug, Serialize, ToSchema)]
struct HandlerView {
    kind: &'static str,
    /// The event types it is for; none: every type.
    on: Vec<String>,
}

/// The sources, by name.
#[utoipa::path(
    get,
    path = "/api/v1/sources",
    tag = "operations",
    security(("token" = [])),
    responses((status = 200, description = "The sources, by name.", body = SourceList))
)]
pub(in crate::http) async fn list(state: Data<ServerState>) -> Json<SourceList> {
    Json(SourceList { sources: state.sources.all().iter().map(|source| SourceView::of(source)).collect() })
}

impl SourceView {
    fn of(source: &Source) -> Self {
        Self {
            name: source.name.to_string(),
            path: format!("/hooks/{}", source.name),
            consumer: source.consumer.to_string(),
            idempotency_key: source.key_policy,
            success_status: source.success_status,
            handlers: source
                .handlers
                .iter()
                .map(|binding| HandlerView {
                    kind: match binding.step {
                        Step::Sql(_) => "sql",
                        Step::Forward(_) => "forward",
                        Step::Code(_) => "code",
                    },
                    on: binding.on.patterns().to_vec(),
                })
                .collect(),
        }
    }
}
