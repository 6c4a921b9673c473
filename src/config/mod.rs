//! The configuration: one file a section, and how the file and the environment become values.
//!
//! A section struct holds what the operator wrote; [`Config`] holds what was looked up and checked.
//! Who has a `Config` need not check again. `config.default.toml` documents every key; a test keeps
//! it true. Knows nothing of HTTP or SQL beyond the words of the domain.

mod address;
pub mod admin;
pub mod database;
pub mod destination;
mod document;
pub mod duration;
pub mod environment;
pub mod error;
mod handler;
pub mod http;
pub mod inbox;
mod keys;
mod load;
pub mod log;
pub mod peer_tls;
pub mod queue;
pub mod relay;
mod report;
pub mod retention;
pub mod secret_ref;
pub mod source;
pub mod tls;
mod transport;
mod tree;
mod wording;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::consumer::QueueSpec;
use crate::outbox::destination::DestinationSpec;
use crate::source::Source;

pub use admin::Admin;
pub use database::{Database, DatabaseUrl, StatementCache};
pub use destination::DestinationSection;
pub use environment::Environment;
pub use error::{ConfigError, Finding};
pub use http::HttpSection;
pub use inbox::InboxSection;
pub use keys::Keys;
pub use log::{LogFormat, LogSection};
pub use peer_tls::PeerTlsSection;
pub use relay::RelaySection;
pub use retention::Retention;
pub use secret_ref::SecretRef;
pub use source::SourceConfig;
pub use tls::TlsSection;

/// Every key with its default, as a commented file.
pub const DEFAULTS: &str = include_str!("../../config.default.toml");

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Config {
    pub http: HttpSection,
    pub admin: Admin,
    pub database: Database,
    pub retention: Retention,
    pub inbox: InboxSection,
    pub relay: RelaySection,
    pub log: LogSection,
    pub sources: Vec<SourceConfig>,
    pub destinations: Vec<DestinationSpec>,
    /// What was set, to tell this configuration from another.
    pub keys: Keys,
    /// What somebody should look at; `hooklatch check` shows it.
    pub warnings: Vec<Finding>,
}

impl Config {
    /// The queues that events come from.
    pub fn queues(&self) -> impl Iterator<Item = &QueueSpec> {
        self.sources.iter().filter_map(|source| source.queue.as_ref())
    }

    /// The sources as the running program knows them.
    #[must_use]
    pub fn run_time_sources(&self) -> Vec<Arc<Source>> {
        self.sources.iter().map(|source| source.source.clone()).collect()
    }
}
