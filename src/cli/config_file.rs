//! `--config`: which file a subcommand reads.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::{Config, Environment};
use crate::reload::Origin;

use super::failure::Failure;

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
