//! The HTTP boundary: two servers, their routes, and the translation between HTTP and the core.
//!
//! The route table below is all there is. The public server takes deliveries and says whether the
//! process is alive; everything for operators is on the admin server, behind its token. Only this
//! module knows HTTP types.
//!
//! Invariant: a body that a handler did not read stays with the response until that is sent
//! (`answer::keeping`). So the server closes such a connection instead of draining it.

mod admin;
mod answer;
mod arrival;
mod body;
mod contract;
mod docs;
mod health;
mod ingest;
mod openapi;
mod outlive;
mod question;
mod record;
mod refused_headers;
mod server;
mod state;

use actix_web::http::Method;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use answer::only;

pub(crate) use arrival::{Arrival, Peer};
pub use openapi::openapi;
pub(crate) use record::Record;
pub use server::{ServerSettings, Socket, Tls, admin_server, bind, public_server};
pub use state::{Limits, ServerState, Services, SourceTable};

/// What the senders see.
fn public_routes(config: &mut ServiceConfig) {
    config
        // Not a pattern with the source in it: every delivery would be matched by a regular expression.
        .service(web::scope("/hooks").default_service(web::to(hooks)))
        .service(health::live_resource())
        .service(health::ready_resource())
        .default_service(web::to(ingest::nothing_here));
}

/// `/hooks/{source}`: a delivery, or a sender that asks something.
async fn hooks(request: HttpRequest, payload: Payload, state: Data<ServerState>) -> HttpResponse {
    let name = match request.match_info().unprocessed().strip_prefix('/') {
        Some(name) if !name.is_empty() && !name.contains('/') => name.to_owned(),
        _ => return ingest::nothing_here(request, payload, state).await,
    };
    if request.method() == Method::POST {
        ingest::receive(request, payload, &name, state).await
    } else {
        question::ask(request, payload, &name, state).await
    }
}

/// What operators see. `/healthz` needs no token, everything else does when one is set.
fn admin_routes(config: &mut ServiceConfig) {
    config.service(health::live_resource()).service(
        web::scope("")
            .wrap(from_fn(admin::guard::catch_panics))
            .wrap(from_fn(admin::guard::require_token))
            .service(only("GET", web::resource("/metrics").route(web::get().to(admin::metrics::expose))))
            .service(only("GET", web::resource("/docs").route(web::get().to(docs::page))))
            .service(only("GET", web::resource("/openapi.json").route(web::get().to(openapi::document))))
            .service(web::scope("/api/v1").configure(admin::routes))
            .default_service(web::to(answer::not_found)),
    );
}
