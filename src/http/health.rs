//! `/healthz` and `/readyz`: whether the process lives, and whether to send it deliveries.
//!
//! Anyone may ask, as often as they like: the database is asked at most once a second.

use std::time::{Duration, Instant};

use actix_web::web::{self, Data};
use actix_web::{HttpResponse, Resource};
use serde_json::json;
use tokio::sync::Mutex;

use crate::http::answer;
use crate::http::state::ServerState;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::store::Store;

/// How long an answer of the database is good for.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How long the database may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

const OK: u16 = 200;

/// `/healthz`, for both servers.
pub(super) fn live_resource() -> Resource {
    let resource = web::resource("/healthz").route(web::get().to(live)).route(web::head().to(live));
    answer::only("GET, HEAD", resource)
}

/// `/readyz`, for the public server.
pub(super) fn ready_resource() -> Resource {
    let resource = web::resource("/readyz").route(web::get().to(ready)).route(web::head().to(ready));
    answer::only("GET, HEAD", resource)
}

/// The process runs.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    responses((status = 200, description = "The process runs.", content_type = "application/json"))
)]
pub(super) async fn live() -> HttpResponse {
    answer::reply(&Reply::json(OK, &json!({"status": "ok"})))
}

/// Deliveries are taken and the database answers.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    responses(
        (status = 200, description = "Deliveries are taken and the database answers.",
            content_type = "application/json"),
        (status = 503, description = "Starting, stopping, or the database does not answer.",
            body = crate::http::openapi::ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(super) async fn ready(state: Data<ServerState>) -> HttpResponse {
    if state.is_ready() && state.probe.answers(&*state.services.store).await {
        answer::reply(&Reply::json(OK, &json!({"status": "ready"})))
    } else {
        answer::problem(Problem::NotReady)
    }
}

/// Whether the database answers, asked once for all who want to know.
#[derive(Debug, Default)]
pub(super) struct StoreProbe {
    last: Mutex<Option<(Instant, bool)>>,
}

impl StoreProbe {
    async fn answers(&self, store: &dyn Store) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, answered)) = *last
            && at.elapsed() < PROBE_EVERY
        {
            return answered;
        }
        let answered = matches!(tokio::time::timeout(PROBE_TIMEOUT, store.now()).await, Ok(Ok(_)));
        *last = Some((Instant::now(), answered));
        answered
    }
}
