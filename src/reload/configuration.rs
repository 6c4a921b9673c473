//! The configuration, read again: sources with all that belongs to them, destinations, the admin
//! token. Whatever else has changed waits for a restart and is named.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::watched::Files;
use super::{Cause, Watched, blocking};
use crate::config::{Config, ConfigError, Environment, Keys};
use crate::handler::{SqlHandler, Step};
use crate::http::ServerState;
use crate::inbox::with_causes;
use crate::outbox::relay::{Destinations, open_all};
use crate::signature::VerifyConfig;
use crate::source::Source;
use crate::store::{Dialect, Store, StoreErrorKind};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::reload_metrics::CONFIGURATION;

/// How long after a configuration that cannot be used it is tried again, changed or not: what it
/// lacked may be there now.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// How long the database may take to look at one new statement.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(5);

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    file: Option<PathBuf>,
    environment: Environment,
}

impl Origin {
    #[must_use]
    pub fn new(file: Option<PathBuf>, environment: Environment) -> Self {
        Self { file, environment }
    }

    /// Reads it.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load(&self) -> Result<Config, ConfigError> {
        Config::load(self.file.as_deref(), &self.environment)
    }

    fn files(&self, keys: &Keys) -> Vec<PathBuf> {
        self.file.iter().chain(keys.files()).cloned().collect()
    }
}

/// What of a configuration can change in a running process.
pub(crate) struct Configuration {
    origin: Origin,
    files: Watched,
    parts: Parts,
    /// As the process was started: what a restart would change is what differs from it.
    started: Started,
    /// As it was last put to use.
    applied: Keys,
    failed: Option<(Instant, Vec<Problem>)>,
}

/// What changes are told to.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) state: Arc<ServerState>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: Arc<Metrics>,
    /// To whoever delivers; nobody may.
    pub(crate) destinations: watch::Sender<Destinations>,
}

struct Started {
    keys: Keys,
    dialect: Dialect,
    sees_client_certificates: bool,
}

/// Why a configuration cannot be used: where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    place: String,
    key: String,
    message: String,
}

impl Configuration {
    pub(crate) fn new(origin: Origin, running: &Config, parts: Parts) -> Self {
        let files = Files::new(origin.files(&running.keys));
        Self {
            origin,
            files: Arc::new(Mutex::new(files)),
            parts,
            started: Started {
                keys: running.keys.clone(),
                dialect: running.database.url.dialect(),
                sees_client_certificates: running.http.sees_client_certificates(),
            },
            applied: running.keys.clone(),
            failed: None,
        }
    }

    pub(super) async fn look(&mut self, cause: Cause) {
        let again =
            cause == Cause::Signal || self.failed.as_ref().is_some_and(|(at, _)| at.elapsed() > TRY_AGAIN);
        let (origin, files) = (self.origin.clone(), self.files.clone());
        let read = blocking(move || {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            if !files.have_changed() && !again {
                return None;
            }
            files.note_reading();
            Some(origin.load())
        })
        .await
        .flatten();
        let problems = match read {
            None => return,
            Some(Ok(config)) => match self.objections(&config).await {
                problems if problems.is_empty() => match open_all(&config.destinations) {
                    Ok(destinations) => return self.apply(&config, destinations, cause),
                    Err((name, error)) => {
                        let place = format!("destination {name:?}");
                        vec![Problem { place, key: "url".to_owned(), message: error.to_string() }]
                    }
                },
                problems => problems,
            },
            Some(Err(error)) => error.findings.into_iter().map(Problem::from).collect(),
        };
        self.refuse(problems, cause);
    }

    /// What this process cannot follow, though another could.
    async fn objections(&self, config: &Config) -> Vec<Problem> {
        let mut problems = Vec::new();
        if config.database.url.dialect() != self.started.dialect {
            problems
                .push(Problem::of("database.url", "it names another kind of database; restart to change it"));
            return problems;
        }
        if !self.started.sees_client_certificates {
            for (number, source) in config.sources.iter().enumerate() {
                if source.section.verify.as_ref().is_some_and(VerifyConfig::asks_for_client_certificate) {
                    problems.push(Problem::of(
                        &format!("source[{number}].verify"),
                        "mtls needs http.tls with client_ca, which the running listener lacks; restart to add it",
                    ));
                }
            }
        }
        let known = self.parts.state.sources();
        let known: HashSet<_> =
            known.iter().flat_map(|source| statements(source)).map(|h| h.text()).collect();
        for source in config.run_time_sources() {
            for (number, handler) in source.handlers.iter().enumerate() {
                let Step::Sql(handler) = &handler.step else { continue };
                if !known.contains(handler.text())
                    && let Some(message) = self.objection_to(handler).await
                {
                    let place = format!("source {:?}, handler {}", source.name, number + 1);
                    problems.push(Problem { place, key: "sql".to_owned(), message });
                }
            }
        }
        problems
    }

    /// What the database says to a statement that it has not seen yet. A database that does not
    /// answer says nothing.
    async fn objection_to(&self, handler: &SqlHandler) -> Option<String> {
        use StoreErrorKind::{Contention, LockTimeout, StatementTimeout, Unavailable};
        let asked = self.parts.store.check_handler(handler);
        match tokio::time::timeout(STATEMENT_PATIENCE, asked).await {
            Ok(Err(error))
                if !matches!(error.kind, Contention | LockTimeout | StatementTimeout | Unavailable) =>
            {
                Some(with_causes(&error))
            }
            _ => None,
        }
    }

    fn apply(&mut self, config: &Config, destinations: Destinations, cause: Cause) {
        let changed = self.applied.differing(&config.keys);
        let was_failed = self.failed.take().is_some();
        if changed.iter().any(|key| key.starts_with("destination[")) {
            // Nobody listens in a process without the role.
            self.parts.destinations.send_replace(destinations);
        }
        self.parts.state.replace_sources(config.run_time_sources());
        self.parts.state.replace_admin_token(config.admin.token.as_ref());
        if cause == Cause::Signal || was_failed || !changed.is_empty() {
            tracing::info!(
                config.changed = %shown(&changed),
                sources = config.sources.len(),
                destinations = config.destinations.len(),
                "configuration read again and put to use"
            );
            self.parts.metrics.reload.applied(CONFIGURATION);
            for warning in &config.warnings {
                tracing::warn!(config.key = warning.key, config.place = %warning.place, "{}", warning.message);
            }
        }
        let waiting: Vec<_> =
            self.started.keys.differing(&config.keys).into_iter().filter(|key| !is_reloadable(key)).collect();
        if !waiting.is_empty() && (cause == Cause::Signal || !changed.is_empty()) {
            tracing::warn!(
                config.keys = %shown(&waiting),
                "these settings have changed and count after a restart only"
            );
        }
        self.files.lock().unwrap_or_else(PoisonError::into_inner).follow(self.origin.files(&config.keys));
        self.applied = config.keys.clone();
    }

    fn refuse(&mut self, problems: Vec<Problem>, cause: Cause) {
        let is_news = self.failed.as_ref().is_none_or(|(_, known)| *known != problems);
        if is_news || cause == Cause::Signal {
            for problem in &problems {
                tracing::error!(
                    config.place = problem.place,
                    config.key = problem.key,
                    "the configuration in use stays, since the new one cannot be used: {}",
                    problem.message
                );
            }
            self.parts.metrics.reload.refused(CONFIGURATION);
        }
        self.failed = Some((Instant::now(), problems));
    }
}

impl Problem {
    fn of(key: &str, message: &str) -> Self {
        Self { place: String::new(), key: key.to_owned(), message: message.to_owned() }
    }
}

impl From<crate::config::Finding> for Problem {
    fn from(finding: crate::config::Finding) -> Self {
        Self { place: finding.place.to_string(), key: finding.key, message: finding.message }
    }
}

fn statements(source: &Source) -> impl Iterator<Item = &SqlHandler> {
    source.handlers.iter().filter_map(|binding| match &binding.step {
        Step::Sql(handler) => Some(&**handler),
        Step::Forward(_) | Step::Code(_) => None,
    })
}

/// The keys of a source that say which queue its deliveries come from: connections to brokers stay.
const OF_A_QUEUE: [&str; 8] =
    ["kind", "url", "queue", "stream", "prefetch", "max_attempts", "connect_timeout", "tls"];

/// Whether a key counts without a restart.
fn is_reloadable(key: &str) -> bool {
    if key.starts_with("source[") {
        let name = key.split_once("].").map_or("", |(_, name)| name);
        return !OF_A_QUEUE.contains(&name.split('.').next().unwrap_or_default());
    }
    key == "admin.token" || key.starts_with("destination[")
}

/// Keys in one line; of very many the first.
fn shown(keys: &[String]) -> String {
    const MOST: usize = 20;
    let mut text = keys.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if keys.len() > MOST {
        text.push_str(&format!(" and {} more", keys.len() - MOST));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_restart_is_needed_for_is_said_so() {
        for key in
            ["admin.token", "source[0].verify.secrets[0]", "source[12].handler[0].sql", "destination[0].url"]
        {
            assert!(is_reloadable(key), "{key}");
        }
        for key in [
            "admin.listen",
            "http.listen",
            "source[0].queue",
            "source[12].url",
            "source[1].kind",
            "source[0].tls.ca",
        ] {
            assert!(!is_reloadable(key), "{key}");
        }
    }
}
