//! Rendering: the core's plain answers as HTTP responses, in one place.
//!
//! Status, headers and body go out byte for byte as the core gave them. A header that HTTP would
//! refuse, or that belongs to the connection and not to the answer, is left out; nothing here can
//! fail.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER};
use actix_web::web::{self, Payload};
use actix_web::{HttpRequest, HttpResponse, Resource};
use bytes::Bytes;
use uuid::Uuid;

use crate::http::body;
use crate::inbox::outcome::Answer;
use crate::problem::Problem;
use crate::reply::Reply;

/// What became of the delivery.
const HOOKLATCH_OUTCOME: HeaderName = HeaderName::from_static("hooklatch-outcome");

/// On answers that were stored by an earlier delivery.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The delivery's id, to look it up by.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers that the server sets itself, or that end at the next hop (RFC 9110 section 7.6.1).
const NOT_OURS_TO_REPEAT: [&str; 11] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "server",
];

/// The answer to a delivery.
pub(super) fn to_delivery(answer: &Answer, id: Uuid) -> HttpResponse {
    let mut response = reply(&answer.reply);
    let headers = response.headers_mut();
    headers.insert(HOOKLATCH_OUTCOME, HeaderValue::from_static(answer.outcome.as_str()));
    let mut buffer = Uuid::encode_buffer();
    if let Ok(value) = HeaderValue::from_str(id.hyphenated().encode_lower(&mut buffer)) {
        headers.insert(X_REQUEST_ID, value);
    }
    if answer.replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    if let Some(seconds) = answer.retry_after_seconds {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A reply as it is.
pub(super) fn reply(reply: &Reply) -> HttpResponse {
    let status = StatusCode::from_u16(reply.status).ok().filter(|status| !status.is_informational());
    let mut response = HttpResponse::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    for (name, value) in &reply.headers {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(&**name), HeaderValue::try_from(&**value)) else {
            continue;
        };
        if !NOT_OURS_TO_REPEAT.contains(&name.as_str()) {
            response.headers_mut().append(name, value);
        }
    }
    response.set_body(reply.body.clone()).map_into_boxed_body()
}

/// A problem as it is.
pub(super) fn problem(problem: Problem) -> HttpResponse {
    reply(&problem.reply())
}

/// Adds `Allow` to a 405.
pub(super) fn allowing(mut response: HttpResponse, methods: HeaderValue) -> HttpResponse {
    response.headers_mut().insert(ALLOW, methods);
    response
}

/// Whatever is asked for, it is not here.
pub(super) async fn not_found(request: HttpRequest, payload: Payload) -> HttpResponse {
    unread(problem(Problem::NotFound), &request, payload).await
}

/// A resource that answers every method it has no route for with 405 and these.
pub(super) fn only(methods: &'static str, resource: Resource) -> Resource {
    resource.default_service(web::to(move |request: HttpRequest, payload: Payload| async move {
        let methods = HeaderValue::from_static(methods);
        unread(allowing(problem(Problem::MethodNotAllowed), methods), &request, payload).await
    }))
}

/// The response to a request whose body nobody wants.
pub(super) async fn unread(
    response: HttpResponse,
    request: &HttpRequest,
    mut payload: Payload,
) -> HttpResponse {
    body::discard_rest(&mut payload, request.headers()).await;
    keeping(response, payload)
}

/// Keeps the request's body with the response until that is sent.
///
/// actix drains a body whose reader is gone, however long it is. While the reader lives, it closes
/// the connection after the response instead, and a body that was read to its end costs nothing.
pub(super) fn keeping(response: HttpResponse, payload: Payload) -> HttpResponse {
    response.map_body(|_, body| Keeping { body, _payload: payload }).map_into_boxed_body()
}

struct Keeping<B> {
    body: B,
    _payload: Payload,
}

impl<B: MessageBody + Unpin> MessageBody for Keeping<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::to_bytes;

    use super::*;

    fn answered(headers: &[(&'static str, &'static str)], status: u16) -> HttpResponse {
        reply(&Reply {
            status,
            headers: headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            body: Bytes::from_static(b"\x00body\xFF"),
        })
    }

    #[actix_web::test]
    async fn a_reply_keeps_its_status_headers_and_bytes() {
        let response = answered(&[("content-type", "text/x"), ("set-cookie", "a"), ("set-cookie", "b")], 202);
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        let cookies: Vec<_> = response.headers().get_all("set-cookie").collect();
        assert_eq!(cookies, ["a", "b"]);
        assert_eq!(response.headers().get("content-type").map(HeaderValue::as_bytes), Some(&b"text/x"[..]));
        assert_eq!(to_bytes(response.into_body()).await.ok(), Some(Bytes::from_static(b"\x00body\xFF")));
    }

    #[test]
    fn a_header_that_http_refuses_is_left_out() {
        let response = answered(
            &[
                ("bad name", "x"),
                ("x-split", "a\r\nset-cookie: b"),
                ("", "x"),
                ("content-length", "1"),
                ("x-ok", "1"),
            ],
            200,
        );
        let names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-ok"]);
    }

    #[test]
    fn a_status_that_is_no_final_answer_becomes_500() {
        for status in [0, 99, 100, 101, 1000, u16::MAX] {
            assert_eq!(answered(&[], status).status(), StatusCode::INTERNAL_SERVER_ERROR, "{status}");
        }
    }
}
