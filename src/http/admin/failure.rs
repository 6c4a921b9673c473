//! Why an operator's action failed, as the problem the operator sees and the line in the log.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use crate::http::answer;
use crate::problem::Problem;
use crate::store::StoreError;

/// A problem, perhaps with a sentence about this occurrence.
#[derive(Debug)]
pub(in crate::http) struct Failure {
    problem: Problem,
    detail: Option<String>,
}

impl Failure {
    pub(super) fn with_detail(problem: Problem, detail: String) -> Self {
        Self { problem, detail: Some(detail) }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { problem, detail: None }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        tracing::warn!(error.reason = %crate::inbox::with_causes(&error), "an operator's request failed");
        Problem::DatabaseUnavailable.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail.as_deref().unwrap_or(self.problem.title()))
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        match &self.detail {
            Some(detail) => answer::reply(&self.problem.reply_with(detail)),
            None => answer::problem(self.problem),
        }
    }
}
