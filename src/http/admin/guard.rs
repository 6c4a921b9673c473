//! Who may use the admin server.
//!
//! A token opens everything. It comes as `Authorization: Bearer TOKEN`, or as the password of
//! `Basic`, so that a browser can ask for it and show `/docs`. A browser sends `Basic` along with
//! requests that other sites make it send, so that is good for reading only.

use std::fmt;
use std::panic::AssertUnwindSafe;

use actix_web::Error;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use actix_web::middleware::Next;
use actix_web::web::{Data, Payload};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::http::admin::failure::Failure;
use crate::http::state::ServerState;
use crate::http::{answer, body};
use crate::problem::Problem;
use crate::secret::Secret;

/// The schemes we take, the one a browser knows last.
const CHALLENGES: [&str; 2] = ["Bearer realm=\"hooklatch\"", "Basic realm=\"hooklatch\", charset=\"UTF-8\""];

/// The admin token as its digest: comparing digests tells nothing of the token's length.
#[derive(Clone)]
pub(in crate::http) struct AdminToken([u8; 32]);

impl AdminToken {
    pub(in crate::http) fn new(token: &Secret) -> Self {
        Self(digest(token.expose().as_bytes()))
    }

    fn is(&self, candidate: &[u8]) -> bool {
        digest(candidate).ct_eq(&self.0).into()
    }

    fn admits(&self, authorization: &[u8], reads_only: bool) -> bool {
        let Some(blank) = authorization.iter().position(|byte| *byte == b' ') else { return false };
        let (scheme, credentials) = authorization.split_at(blank);
        let credentials = credentials.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return self.is(credentials);
        }
        if scheme.eq_ignore_ascii_case(b"basic") && reads_only {
            let decoded = STANDARD.decode(credentials).unwrap_or_default();
            return decoded
                .iter()
                .position(|byte| *byte == b':')
                .is_some_and(|colon| self.is(&decoded[colon + 1..]));
        }
        false
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lets a request through when no token is set, or when it carries the token.
pub(in crate::http) async fn require_token(
    state: Data<ServerState>,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if is_admitted(&request, &state) {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    let mut payload = request.extract::<Payload>().await?;
    body::discard_rest(&mut payload, request.headers()).await;
    let mut response = answer::problem(Problem::Unauthorized);
    for challenge in CHALLENGES {
        response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    Ok(request.into_response(answer::keeping(response, payload)))
}

/// Answers 500 when a handler panics, instead of dropping the connection.
pub(in crate::http) async fn catch_panics(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let path = request.path().to_owned();
    match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(response) => Ok(response?.map_into_boxed_body()),
        Err(_) => {
            tracing::error!(request.path = path, "an operator's request panicked");
            Err(Failure::from(Problem::Internal).into())
        }
    }
}

fn is_admitted(request: &ServiceRequest, state: &ServerState) -> bool {
    let Some(token) = state.admin_token() else { return true };
    let mut values = request.headers().get_all(AUTHORIZATION);
    match (values.next(), values.next()) {
        (Some(value), None) => token.admits(value.as_bytes(), request.method().is_safe()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, init_service, try_call_service};
    use actix_web::{App, HttpResponse, web};

    use super::*;

    fn token() -> AdminToken {
        AdminToken::new(&Secret::new("s3cret"))
    }

    #[test]
    fn the_scheme_word_may_be_in_any_case_and_the_token_may_not() {
        for admitted in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret", "bearer s3cret "] {
            assert!(token().admits(admitted.as_bytes(), false), "{admitted:?}");
        }
        for refused in [
            "Bearer S3CRET",
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer",
            "Bearer ",
            "s3cret",
            "",
            "Token s3cret",
        ] {
            assert!(!token().admits(refused.as_bytes(), true), "{refused:?}");
        }
    }

    #[test]
    fn a_browsers_password_is_good_for_reading_only() {
        let header = format!("Basic {}", STANDARD.encode("anyone:s3cret"));
        assert!(token().admits(header.as_bytes(), true));
        assert!(!token().admits(header.as_bytes(), false));
        let wrong = format!("Basic {}", STANDARD.encode("s3cret:anyone"));
        assert!(!token().admits(wrong.as_bytes(), true));
        assert!(!token().admits(b"Basic ????", true));
    }

    #[actix_web::test]
    async fn a_handler_that_panics_is_answered_500_and_the_server_goes_on() {
        async fn panics() -> HttpResponse {
            panic!("on purpose");
        }
        let app = App::new().service(
            web::scope("")
                .wrap(from_fn(catch_panics))
                .route("/panics", web::get().to(panics))
                .route("/works", web::get().to(HttpResponse::Ok)),
        );
        let app = init_service(app).await;
        for (path, status) in [("/panics", 500), ("/works", 200), ("/panics", 500)] {
            let request = TestRequest::get().uri(path).to_request();
            let response = match try_call_service(&app, request).await {
                Ok(response) => response.status().as_u16(),
                Err(error) => error.as_response_error().status_code().as_u16(),
            };
            assert_eq!(response, status, "{path}");
        }
    }

    #[test]
    fn the_token_is_not_shown() {
        assert_eq!(format!("{:?}", token()), "AdminToken");
    }
}
