//! What operators do over HTTP: one file for each action, with its request, its response, its
//! OpenAPI description and its handler.

pub(super) mod dead_letters;
pub(super) mod deliveries;
pub(super) mod events;
pub(super) mod failure;
pub(super) mod guard;
pub(super) mod metrics;
pub(super) mod sources;

use actix_web::HttpRequest;
use actix_web::error::InternalError;
use actix_web::web::{self, PathConfig, Payload, QueryConfig, ServiceConfig};

use crate::http::answer;
use crate::problem::Problem;

/// Everything below `/api/v1`.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(only(web::resource("/deliveries").route(web::get().to(deliveries::list::list)), "GET"))
        .service(only(web::resource("/events/{event_id}").route(web::get().to(events::show::show)), "GET"))
        .service(only(
            web::resource("/events/{consumer}/{event_id}").route(web::delete().to(events::forget::forget)),
            "DELETE",
        ))
        .service(only(web::resource("/dead-letters").route(web::get().to(dead_letters::list::list)), "GET"))
        .service(only(
            web::resource("/dead-letters/{id}")
                .route(web::get().to(dead_letters::show::show))
                .route(web::delete().to(dead_letters::discard::discard)),
            "GET, DELETE",
        ))
        .service(only(
            web::resource("/dead-letters/{id}/retry").route(web::post().to(dead_letters::retry::retry)),
            "POST",
        ))
        .service(only(web::resource("/sources").route(web::get().to(sources::list)), "GET"));
}

/// Answers every other method with 405 and these.
fn only(resource: actix_web::Resource, methods: &'static str) -> actix_web::Resource {
    resource.default_service(web::to(move |request: HttpRequest, payload: Payload| async move {
        let response = answer::allowing(answer::problem(Problem::MethodNotAllowed), methods);
        answer::unread(response, &request, payload).await
    }))
}

/// A query that cannot be read is answered with the reason.
pub(super) fn query_config() -> QueryConfig {
    QueryConfig::default().error_handler(|error, _| {
        let response = answer::reply(&Problem::MalformedRequest.reply_with(&error.to_string()));
        InternalError::from_response(error, response).into()
    })
}

/// A path that cannot be read (an id that is no UUID, for example) leads to nothing.
pub(super) fn path_config() -> PathConfig {
    PathConfig::default().error_handler(|error, _| {
        InternalError::from_response(error, answer::problem(Problem::NotFound)).into()
    })
}
