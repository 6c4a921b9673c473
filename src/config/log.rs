//! `[log]`: what the process writes to standard error.

use serde::{Deserialize, Serialize};

use super::report::Report;

/// Form and detail of the log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// For people, or one JSON object a line.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug` or `trace`; or by module, as in `info,hooklatch::inbox=debug`.
    pub level: String,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Pretty,
    Json,
}

impl Default for LogSection {
    fn default() -> Self {
        Self {
            format: LogFormat::Pretty,
            level: "info,actix_http=off,actix_server=warn,async_nats=warn".into(),
        }
    }
}

impl LogSection {
    pub(super) fn check(&self, report: &mut Report) {
        // A bare word that is no level would be taken for a module's name and silence everything.
        let words = self.level.split(',').map(str::trim);
        let bare_words_are_levels =
            words.filter(|word| !word.contains('=') && !word.contains('[')).all(|word| {
                ["off", "error", "warn", "info", "debug", "trace"].contains(&word.to_lowercase().as_str())
            });
        if !bare_words_are_levels || self.level.parse::<tracing_subscriber::EnvFilter>().is_err() {
            report.error(
                "log.level",
                format!("{:?} is no level; write error, warn, info, debug or trace, or one a module as in \"info,hooklatch::inbox=debug\"", self.level),
            );
        }
    }
}
