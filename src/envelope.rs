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
