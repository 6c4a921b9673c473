//! From a file and the environment to a configuration that can be used, or to all that is wrong.

use std::path::Path;

use serde::Deserialize;

use super::Config;
use super::admin::AdminSection;
use super::database::DatabaseSection;
use super::destination::{self, DestinationSection};
use super::document::Document;
use super::environment::Environment;
use super::error::{ConfigError, Finding, Place};
use super::http::HttpSection;
use super::inbox::InboxSection;
use super::keys::Keys;
use super::log::LogSection;
use super::relay::RelaySection;
use super::report::Report;
use super::retention::Retention;
use super::source::{self, SourceSection};
use crate::signature::VerifyConfig;

/// What messages call the configuration when there is no file.
const NO_FILE: &str = "(defaults)";

/// The configuration as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    pub(super) http: HttpSection,
    pub(super) admin: AdminSection,
    pub(super) database: DatabaseSection,
    pub(super) retention: Retention,
    pub(super) inbox: InboxSection,
    pub(super) relay: RelaySection,
    pub(super) log: LogSection,
    pub(super) source: Vec<SourceSection>,
    pub(super) destination: Vec<DestinationSection>,
}

impl Config {
    /// Reads the file, if one is named, and the environment.
    ///
    /// # Errors
    /// Everything that is wrong, each with its place and the way out.
    pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let Some(path) = file else { return Self::parse(NO_FILE, "", environment) };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            findings: vec![Finding {
                place: Place::File(name.clone()),
                key: String::new(),
                message: format!(
                    "the file cannot be read: {error}; name another with --config FILE or HOOKLATCH_CONFIG"
                ),
            }],
        })?;
        Self::parse(&name, &text, environment)
    }

    /// Reads `text`, which messages call `file`, and the environment.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(file: &str, text: &str, environment: &Environment) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut document = Document::read(file, text, environment).map_err(ConfigError::new)?;
        let written: Written = document.shape().map_err(ConfigError::new)?;
        let mut report = Report::default();
        // Before secrets are looked up: one that changes meanwhile is seen as a change later.
        let keys = document.keys();
        let config = written.resolve(environment, &mut report);
        let placed = |(key, message): (String, String)| Finding { place: document.place(&key), key, message };
        match config {
            Some(mut config) if report.errors.is_empty() => {
                config.keys = keys;
                config.warnings = report.warnings.into_iter().map(placed).collect();
                Ok(config)
            }
            _ => Err(ConfigError::new(report.errors.into_iter().map(placed).collect())),
        }
    }
}

impl Written {
    /// Only a listener that ends TLS itself sees a client's certificate: behind a proxy there is none.
    fn check_client_certificates(&self, report: &mut Report) {
        if self.http.sees_client_certificates() {
            return;
        }
        for (number, source) in self.source.iter().enumerate() {
            if source.verify.as_ref().is_some_and(VerifyConfig::asks_for_client_certificate) {
                report.error(
                    &format!("source[{number}].verify"),
                    "mtls needs the certificate that the client shows in the handshake, so hooklatch must end \
                     TLS itself and know its authorities; set http.tls with client_ca. Behind a proxy that \
                     ends TLS, let the proxy verify clients",
                );
            }
        }
    }

    /// `None` only after an error was reported.
    fn resolve(self, environment: &Environment, report: &mut Report) -> Option<Config> {
        self.http.check(report);
        let admin = self.admin.resolve(self.http.listen, environment, report);
        let database = self.database.resolve(environment, report);
        let horizons: Vec<_> = self
            .source
            .iter()
            .enumerate()
            .filter_map(|(number, source)| {
                let known = || source.preset().and_then(|preset| preset.retry_horizon);
                Some((format!("source[{number}].retry_horizon"), source.retry_horizon.or_else(known)?))
            })
            .collect();
        let receivers: Vec<_> = self
            .destination
            .iter()
            .enumerate()
            .filter_map(|(number, section)| {
                Some((format!("destination[{number}].keys_kept"), section.keys_kept?))
            })
            .collect();
        self.retention.check(&horizons, &receivers, report);
        self.inbox.check(self.database.max_connections, report);
        self.relay.check(report);
        self.log.check(report);
        self.check_client_certificates(report);
        let dialect = database.as_ref().map(|database| database.url.dialect());
        let destinations = destination::resolve_all(&self.destination, environment, report);
        let names: Vec<_> = self.destination.into_iter().map(|section| section.name).collect();
        let sources = source::resolve_all(self.source, &names, dialect, environment, report);
        Some(Config {
            http: self.http,
            admin,
            database: database?,
            retention: self.retention,
            inbox: self.inbox,
            relay: self.relay,
            log: self.log,
            sources,
            destinations,
            keys: Keys::default(),
            warnings: Vec::new(),
        })
    }
}
