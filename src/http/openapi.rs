//! The OpenAPI document of both servers, put together from the handlers' own descriptions.
//!
//! `api/openapi.json` is a copy that a test keeps true.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use serde::Serialize;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Header, OpenApi as Document, RefOr, Response};
use utoipa::{Modify, OpenApi, ToSchema};

use crate::http::{admin, health};
use crate::inbox::outcome::Outcome;
use crate::problem::Problem;

/// The document, as JSON, once.
static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| openapi().to_pretty_json().unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}")));

/// The OpenAPI document of the public and the admin server.
#[must_use]
pub fn openapi() -> Document {
    Api::openapi()
}

/// The OpenAPI document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operations",
    security(("token" = [])),
    responses((status = 200, description = "This document.", content_type = "application/json"))
)]
pub(super) async fn document() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(DOCUMENT.as_str())
}

/// An error (RFC 9457, `application/problem+json`).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemDocument {
    /// Names the problem, for programs: `urn:hooklatch:problem:` and an id.
    #[serde(rename = "type")]
    #[schema(example = "urn:hooklatch:problem:signature-invalid")]
    kind: String,
    /// Says what is wrong and the way out, for people.
    #[schema(example = "The signature could not be verified.")]
    title: String,
    /// The status code again.
    #[schema(example = 401)]
    status: u16,
    /// A sentence about this occurrence, when there is more to say.
    detail: Option<String>,
}

/// The standard answer to a delivery of one event. A handler may give another one.
#[derive(Debug, Serialize, ToSchema)]
struct Settled {
    /// `applied`, `ignored`, `stale` or `duplicate`.
    #[schema(example = "applied")]
    status: String,
    /// The event's id. A body of many events is answered with `events` instead, one entry each.
    #[schema(example = "evt_1")]
    event_id: String,
}

/// Takes a delivery. Each event takes effect once: a repeated one gets the stored answer back, byte
/// for byte, as long as the retention window lasts.
///
/// What is checked, in this order: size, source, signature, envelope, `Idempotency-Key`. Every answer
/// says what became of the delivery in `Hooklatch-Outcome`, and its id in `X-Request-Id`.
#[utoipa::path(
    post,
    path = "/hooks/{source}",
    tag = "hooks",
    params(
        ("source" = String, Path, description = "The source's name."),
        ("Idempotency-Key" = Option<String>, Header,
            description = "1 to 255 printable ASCII characters; `\"abc\"` and `abc` are one key. \
                Without it, the event id serves."),
    ),
    request_body(
        description = "One event, or many, as the source is configured: JSON, or a form whose `payload` is JSON.",
        content((serde_json::Value = "application/json"))
    ),
    responses(
        (status = 200, description = "Applied, ignored, stale, or processed before. The source may answer 201, 202 \
            or 204 instead, a handler with a status of its own. `Idempotent-Replayed: true` marks a stored answer. \
            A signed question whether the address is ours gets the answer its sender wants.",
            body = Settled),
        (status = 400, description = "No JSON, no valid event id, or a bad or missing `Idempotency-Key`. \
            Nothing is kept.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "The signature is missing, wrong, too old or too new. The reason is in the \
            ledger.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "No source has this name.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 405, description = "Not a POST, nor a method in which the source's sender asks; `Allow` names those.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 409, description = "The same key is still being processed; come again after `Retry-After`.",
            body = ProblemDocument, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large, chunked ones too. The connection is closed.",
            body = ProblemDocument, content_type = "application/problem+json"),
        (status = 415, description = "The body has a `Content-Encoding`.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 422, description = "The event was refused for good and kept for the operator (403 or 406 for \
            senders that stop their retries then), or the `Idempotency-Key` was used for another request.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 500, description = "The event failed and the source replays failures, or something went wrong \
            here.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "Nothing was kept; send it again after `Retry-After`.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
#[expect(
    dead_code,
    reason = "carries the description of ingest::receive, whose file is about the order of checks"
)]
fn receive() {}

/// Answers a sender that asks with `GET` whether the address is ours: Meta, Dropbox. No event.
#[utoipa::path(
    get,
    path = "/hooks/{source}",
    tag = "hooks",
    params(
        ("source" = String, Path, description = "The source's name."),
        ("challenge" = Option<String>, Query, description = "Dropbox: the text to send back."),
        ("hub.mode" = Option<String>, Query, description = "Meta: `subscribe`."),
        ("hub.challenge" = Option<String>, Query, description = "Meta: the text to send back."),
        ("hub.verify_token" = Option<String>, Query, description = "Meta: the token that was agreed upon."),
    ),
    responses(
        (status = 200, description = "The challenge.", body = String, content_type = "text/plain"),
        (status = 400, description = "Not the question that this sender asks.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 401, description = "The address of the sender may not ask.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 403, description = "Meta: another token."),
        (status = 405, description = "The source's sender does not ask in this way.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
#[expect(dead_code, reason = "carries the description of question::ask")]
fn ask() {}

/// Answers a sender of CloudEvents that asks whether it may send. No event.
#[utoipa::path(
    options,
    path = "/hooks/{source}",
    tag = "hooks",
    params(
        ("source" = String, Path, description = "The source's name."),
        ("WebHook-Request-Origin" = String, Header, description = "Who asks."),
        ("WebHook-Request-Rate" = Option<String>, Header, description = "How often it would like to send."),
    ),
    responses(
        (status = 200, description = "It may: `WebHook-Allowed-Origin`, and `WebHook-Allowed-Rate` if it asked."),
        (status = 400, description = "Not the question that this sender asks.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 401, description = "The address of the sender may not ask.", body = ProblemDocument,
            content_type = "application/problem+json"),
        (status = 405, description = "The source's sender does not ask in this way.", body = ProblemDocument,
            content_type = "application/problem+json"),
    )
)]
#[expect(dead_code, reason = "carries the description of question::ask")]
fn ask_for_consent() {}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "hooklatch",
        description = "Receives webhooks so that each event takes effect exactly once. `/hooks`, `/healthz` and \
            `/readyz` are on the public listener, everything else is on the admin listener.",
    ),
    paths(
        receive,
        ask,
        ask_for_consent,
        health::live,
        health::ready,
        admin::metrics::expose,
        document,
        super::docs::page,
        admin::deliveries::list::list,
        admin::events::show::show,
        admin::events::forget::forget,
        admin::dead_letters::list::list,
        admin::dead_letters::show::show,
        admin::dead_letters::retry::retry,
        admin::dead_letters::discard::discard,
        admin::sources::list,
    ),
    tags(
        (name = "hooks", description = "What senders send."),
        (name = "deliveries", description = "The ledger: what arrived and what became of it."),
        (name = "events", description = "What the inbox holds."),
        (name = "dead letters", description = "Events kept for a person."),
        (name = "operations", description = "What runs here, and how it does."),
        (name = "health", description = "For load balancers and orchestrators."),
    ),
    modifiers(&Token, &DeliveryHeaders, &ProblemTypes),
)]
struct Api;

/// The admin token.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("`admin.token` of the configuration. Not asked for when none is set."))
            .build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The headers of the answers to deliveries.
struct DeliveryHeaders;

impl Modify for DeliveryHeaders {
    fn modify(&self, document: &mut Document) {
        let Some(item) = document.paths.paths.get_mut("/hooks/{source}") else { return };
        let operations = [(true, &mut item.post), (false, &mut item.get), (false, &mut item.options)];
        let answers = operations
            .into_iter()
            .filter_map(|(is_post, operation)| Some((is_post, operation.as_mut()?)))
            .flat_map(|(is_post, operation)| {
                operation.responses.responses.iter_mut().map(move |answer| (is_post, answer))
            });
        for (is_post, (status, response)) in answers {
            let RefOr::T(response) = response else { continue };
            add_header(response, "Hooklatch-Outcome", outcome_header());
            add_header(response, "X-Request-Id", text_header("The delivery's id, as the ledger knows it."));
            if is_post && matches!(status.as_str(), "200" | "422" | "500") {
                add_header(response, "Idempotent-Replayed", text_header("`true` on a stored answer."));
            }
            if matches!(status.as_str(), "409" | "503") {
                add_header(response, "Retry-After", text_header("Seconds to wait before the next attempt."));
            }
        }
    }
}

/// The known values of a problem's `type`.
struct ProblemTypes;

impl Modify for ProblemTypes {
    fn modify(&self, document: &mut Document) {
        use utoipa::openapi::schema::Schema;
        let components = document.components.get_or_insert_default();
        let Some(RefOr::T(Schema::Object(problem))) = components.schemas.get_mut("Problem") else { return };
        let list: Vec<_> = Problem::ALL
            .into_iter()
            .map(|problem| format!("- `{}` ({}): {}", problem.id(), problem.status(), problem.title()))
            .collect();
        problem.description = Some(format!(
            "An error (RFC 9457, `application/problem+json`). The ids at the end of `type`:\n\n{}",
            list.join("\n")
        ));
    }
}

fn add_header(response: &mut Response, name: &str, header: Header) {
    response.headers.insert(name.into(), header.into());
}

fn text_header(description: &str) -> Header {
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))))
        .description(Some(description))
        .build()
}

fn outcome_header() -> Header {
    let values = Outcome::ALL.into_iter().map(Outcome::as_str);
    HeaderBuilder::new()
        .schema(Some(
            ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).enum_values(Some(values)),
        ))
        .description(Some("What became of the delivery."))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_to_a_delivery_names_its_outcome() {
        let document: serde_json::Value = serde_json::to_value(openapi()).expect("a document is JSON");
        for (method, answers) in [("post", 11), ("get", 5), ("options", 4)] {
            let responses =
                document["paths"]["/hooks/{source}"][method]["responses"].as_object().expect("responses");
            assert!(responses.len() >= answers, "{method}");
            for (status, response) in responses {
                let values = &response["headers"]["Hooklatch-Outcome"]["schema"]["enum"];
                assert_eq!(values.as_array().map(Vec::len), Some(Outcome::ALL.len()), "{method} {status}");
            }
        }
    }

    #[test]
    fn everything_on_the_admin_server_asks_for_the_token() {
        let document = serde_json::to_value(openapi()).expect("a document is JSON");
        for (path, item) in document["paths"].as_object().expect("paths") {
            let is_open = path.starts_with("/hooks/") || path == "/healthz" || path == "/readyz";
            for (method, operation) in item.as_object().expect("operations") {
                assert_eq!(operation["security"].is_null(), is_open, "{method} {path}");
            }
        }
    }

    #[test]
    fn the_filters_of_every_list_are_described() {
        let document = serde_json::to_value(openapi()).expect("a document is JSON");
        for (path, filter) in [
            ("/api/v1/deliveries", "outcome"),
            ("/api/v1/dead-letters", "after"),
            ("/api/v1/events/{event_id}", "consumer"),
        ] {
            let parameters = document["paths"][path]["get"]["parameters"].as_array().expect("parameters");
            let found = parameters.iter().find(|parameter| parameter["name"] == filter);
            assert_eq!(found.map(|parameter| &parameter["in"]), Some(&"query".into()), "{path} {filter}");
        }
    }

    #[test]
    fn every_problem_is_listed() {
        let document = serde_json::to_value(openapi()).expect("a document is JSON");
        let text =
            document["components"]["schemas"]["Problem"]["description"].as_str().expect("a description");
        for problem in Problem::ALL {
            assert!(text.contains(problem.id()), "{} is missing", problem.id());
        }
    }
}
