//! hooklatch receives webhooks so that each event takes effect exactly once.
//!
//! The modules read in the order in which a request travels; `ARCHITECTURE.md` is the map.

mod alarm;
pub mod app;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod config;
pub mod consumer;
pub mod envelope;
pub mod event;
pub mod handler;
pub mod http;
pub mod inbox;
pub mod json_pointer;
pub mod json_scan;
pub mod ledger;
pub mod lifecycle;
pub mod outbox;
pub mod problem;
pub mod pruner;
pub mod raw_headers;
pub mod reload;
pub mod reply;
pub mod secret;
mod secret_headers;
pub mod signature;
pub mod source;
pub mod store;
pub mod telemetry;
pub mod tls;
