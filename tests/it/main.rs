//! The only integration test binary: one link, one process, every claim on both stores.

mod store_contract;
