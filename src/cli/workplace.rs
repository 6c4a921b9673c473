//! Where the operator's subcommands work: a configuration with its database open.

use std::sync::Arc;

use crate::app;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::Store;

use super::Failure;
use super::config_file::ConfigFile;

/// A configuration with its database open, for the operator's subcommands.
pub(super) struct Workplace {
    pub(super) config: Config,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
}

impl Workplace {
    pub(super) async fn open(file: &ConfigFile) -> Result<Self, Failure> {
        let config = file.load()?;
        let clock = Clock::system();
        let store = app::open_store(&config.database, clock.clone()).await?;
        Ok(Self { config, store, clock })
    }

    /// Opens it, works there, and closes it whatever came of it.
    pub(super) async fn visit(
        file: &ConfigFile,
        work: impl AsyncFnOnce(&Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let place = Self::open(file).await?;
        let result = work(&place).await;
        place.store.close().await;
        result
    }

    /// Every dedup scope, once.
    pub(super) fn consumers(&self) -> Vec<String> {
        let mut consumers: Vec<_> =
            self.config.sources.iter().map(|source| source.section.consumer().to_owned()).collect();
        consumers.sort();
        consumers.dedup();
        consumers
    }

    /// The dedup scope of a source.
    pub(super) fn consumer_of(&self, source: &str) -> Result<String, Failure> {
        let found = self.config.sources.iter().find(|known| known.section.name == source);
        found.map(|source| source.section.consumer().to_owned()).ok_or_else(|| {
            let names: Vec<_> = self.config.sources.iter().map(|source| &*source.section.name).collect();
            Failure::usage(format!("there is no source {source:?}; there are {}", names.join(", ")))
        })
    }
}
