//! hooklatch receives webhooks so that each event takes effect exactly once.
//!
//! The modules read in the order in which a request travels; `ARCHITECTURE.md` is the map.

pub mod clock;
pub mod config;
pub mod envelope;
pub mod event;
pub mod handler;
pub mod http;
pub mod inbox;
pub mod ledger;
pub mod problem;
pub mod pruner;
pub mod reply;
pub mod secret;
pub mod signature;
pub mod source;
pub mod store;
pub mod telemetry;
