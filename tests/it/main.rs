//! The only integration test binary: one link, one process, every claim on both stores.

mod support;

mod black_box;
mod brokers;
mod dependencies_record;
mod deployment;
mod examples;
mod http;
mod openapi;
mod outbox;
mod signature;
mod store_contract;
mod vectors;
