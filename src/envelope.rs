//! stub
use crate::event::*;
use std::sync::Arc;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct EnvelopeError;
#[derive(Debug, Default, Clone)]
pub struct EnvelopeRules;
pub struct Parsed {
    pub events: Vec<Event>,
    pub is_batch: bool,
}
impl EnvelopeRules {
    pub fn parse(&self, _c: &Arc<str>, _r: &RawRequest) -> Result<Parsed, EnvelopeError> {
        Err(EnvelopeError)
    }
}

impl EnvelopeError {
    pub fn problem(&self) -> crate::problem::Problem {
        crate::problem::Problem::MalformedBody
    }
}
pub fn idempotency_key(
    _p: crate::source::KeyPolicy,
    _r: &RawRequest,
) -> Result<Option<IdempotencyKey>, EnvelopeError> {
    Ok(None)
}
pub fn fingerprint(_m: &str, _t: &str, _b: &[u8]) -> Fingerprint {
    Fingerprint([0; 32])
}
