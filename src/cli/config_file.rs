//! `--config`: which file a subcommand reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use crate::app;
use crate::clock::Clock;
use crate::config::{Config, Environment};
use crate::reload::Origin;
use crate::store::Store;

use super::Failure;

/// What is read when nothing is named and it is there.
const USUAL_FILE: &str = "hooklatch.toml";

#[derive(Clone, Debug, Args)]
pub(super) struct ConfigFile {
    /// The configuration file [default: hooklatch.toml, if it exists]
    #[arg(long, short, value_name = "FILE", env = "HOOKLATCH_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file that is read; `None`: defaults and the environment only.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
        self.config.clone().or_else(usual)
    }

    /// Reads the configuration.
    pub(super) fn load(&self) -> Result<Config, Failure> {
        Ok(self.origin().load()?)
    }

    /// Where the configuration comes from.
    pub(super) fn origin(&self) -> Origin {
        Origin::new(self.path(), Environment::of_process())
    }

    /// What messages call the configuration.
    pub(super) fn name(&self) -> String {
        self.path().as_deref().map(Path::display).map_or_else(
            || format!("no {USUAL_FILE} here: defaults and HOOKLATCH__… variables"),
            |path| path.to_string(),
        )
    }
}

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
