//! What operators do over HTTP: one file for each action, with its request, its response, its
//! OpenAPI description and its handler.

pub(super) mod dead_letters;
pub(super) mod deliveries;
pub(super) mod events;
pub(super) mod failure;
pub(super) mod guard;
pub(super) mod metrics;
pub(super) mod sources;

use actix_web::error::InternalError;
use actix_web::web::{self, PathConfig, QueryConfig, ServiceConfig};

use crate::http::answer::{self, only};
use crate::problem::Problem;

/// Everything below `/api/v1`.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(only("GET", web::resource("/deliveries").route(web::get().to(deliveries::list::list))))
        .service(only("GET", web::resource("/events/{event_id}").route(web::get().to(events::show::show))))
        .service(only(
            "DELETE",
            web::resource("/events/{consumer}/{event_id}").route(web::delete().to(events::forget::forget)),
        ))
        .service(only("GET", web::resource("/dead-letters").route(web::get().to(dead_letters::list::list))))
        .service(only(
            "GET, DELETE",
            web::resource("/dead-letters/{id}")
                .route(web::get().to(dead_letters::show::show))
                .route(web::delete().to(dead_letters::discard::discard)),
        ))
        .service(only(
            "POST",
            web::resource("/dead-letters/{id}/retry").route(web::post().to(dead_letters::retry::retry)),
        ))
        .service(only("GET", web::resource("/sources").route(web::get().to(sources::list))));
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
