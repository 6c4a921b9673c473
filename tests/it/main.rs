//! The only integration test binary: one link, one process, every claim on both stores.

mod signature;
mod vectors;
