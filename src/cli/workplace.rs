//! Where the operator's subcommands work: a configuration with its database open.

use std::sync::Arc;

use crate::app;
use crate::clock::Clock;
use crate::config::Config;
use crate::lifecycle::prepare_schema;
use crate::store::Store;

use super::config_file::ConfigFile;
use super::failure::{Failure, causes};

/// A configuration with its database open, for the operator's subcommands.
pub(super) struct Workplace {
    pub(super) config: Config,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
}

impl Workplace {
    /// For those who work with what is there: the database must exist, and its schema be this program's.
    pub(super) async fn open(file: &ConfigFile) -> Result<Self, Failure> {
        // Opened, the file would be there, empty, in whatever directory somebody happens to be.
        let database = file.load()?.database;
        if app::would_make_database(&database) {
            return Err(Failure::new(format!(
                "there is no database {}: is this the directory that hooklatch runs in? `serve` or `migrate` makes it (configuration: {})",
                database.url,
                file.name(),
            )));
        }
        let place = Self::open_or_make(file).await?;
        if let Err(error) = prepare_schema(&*place.store, false).await {
            place.store.close().await;
            return Err(Failure::new(causes(&error)));
        }
        Ok(place)
    }

    /// For those who make a database: it need not be there.
    pub(super) async fn open_or_make(file: &ConfigFile) -> Result<Self, Failure> {
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

    /// Says so when a source that was asked for is none: nothing is found of it, and old lines of one that was
    /// removed may still be.
    pub(super) fn remark_on(&self, source: Option<&str>) {
        let known = |name: &str| self.config.sources.iter().any(|source| source.section.name == name);
        if let Some(name) = source.filter(|name| !known(name)) {
            say!("{}", no_source(&self.config, name));
        }
    }

    /// The dedup scope of a source.
    pub(super) fn consumer_of(&self, source: &str) -> Result<String, Failure> {
        let found = self.config.sources.iter().find(|known| known.section.name == source);
        found
            .map(|source| source.section.consumer().to_owned())
            .ok_or_else(|| no_source(&self.config, source))
    }
}

/// A name that is no source's, with those that are.
pub(super) fn no_source(config: &Config, name: &str) -> Failure {
    let known: Vec<_> = config.sources.iter().map(|source| &*source.section.name).collect();
    no_such("source", name, &known)
}

/// A name that is nobody's, with those that are.
pub(super) fn no_such(what: &str, name: &str, known: &[&str]) -> Failure {
    let known = match known {
        [] => format!("there is none; add a [[{what}]] to the configuration"),
        known => format!("there are: {}", known.join(", ")),
    };
    Failure::usage(format!("there is no {what} {name:?}; {known}"))
}
