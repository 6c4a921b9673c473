//! `GET /metrics`: the exposition for Prometheus.

use actix_web::HttpResponse;
use actix_web::web::Data;

use crate::http::state::ServerState;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics in the OpenMetrics text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    security(("token" = [])),
    responses((status = 200, description = "All metrics.", body = String,
        content_type = "application/openmetrics-text"))
)]
pub(in crate::http) async fn expose(state: Data<ServerState>) -> HttpResponse {
    HttpResponse::Ok().content_type(OPEN_METRICS).body(state.services.metrics.encode())
}
