//! The only integration test binary: one link, one process, every claim on both stores.

mod support;

mod black_box;
mod brokers;
mod check;
mod dependencies_record;
mod deployment;
mod examples;
mod http;
mod lifecycle;
mod openapi;
mod outbox;
mod reload;
mod signature;
mod store_contract;
mod tls;
mod vectors;
