//! The log: where it goes, how it looks, what is let through.
//!
//! Lines go to standard error, so that standard output stays the command's own. A line is a short
//! sentence with dotted fields (`delivery.id`, `source.name`); it never carries a body, a header
//! value or a secret.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For a person: one line, with colours on a terminal.
    #[default]
    Pretty,
    /// For a machine: one JSON object a line.
    Json,
}

/// Never let through, whatever is asked for: the AMQP client writes whole messages into its log, and
/// reports as errors what the relay tries again and tells of itself.
const SILENCED: [&str; 1] = ["lapin=off"];

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error(
        "the log filter `{filter}` cannot be read; write a level (`info`) or levels by module (`info,sqlx=warn`)"
    )]
    Filter {
        filter: String,
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is a log already.
    #[error("a log is set up already")]
    AlreadySet,
}

/// Sends the log of this process to standard error from now on.
///
/// # Errors
/// When `filter` cannot be read, or when another log is set up already.
pub fn install(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let filter = parse(filter)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = match format {
        LogFormat::Pretty => builder.with_ansi(io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    installed.map_err(|_| LogError::AlreadySet)
}

/// Reads a filter as `RUST_LOG` writes them.
///
/// # Errors
/// When it cannot be read.
pub fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    let mut read = EnvFilter::builder()
        .parse(filter)
        .map_err(|cause| LogError::Filter { filter: filter.into(), cause: Box::new(cause) })?;
    for silenced in SILENCED {
        let silenced = silenced
            .parse()
            .map_err(|cause| LogError::Filter { filter: silenced.into(), cause: Box::new(cause) })?;
        read = read.add_directive(silenced);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_is_named_in_the_error() {
        let error = parse("info,hooklatch=loud").expect_err("`loud` is no level");
        assert!(error.to_string().contains("`info,hooklatch=loud`"), "{error}");
        assert!(parse("debug").is_ok());
        assert!(parse("info,sqlx=warn").is_ok());
    }

    #[test]
    fn what_logs_bodies_stays_silent_whatever_is_asked_for() {
        for filter in ["trace", "lapin=trace", "lapin=debug,info"] {
            let read = parse(filter).expect(filter).to_string();
            assert!(read.split(',').any(|directive| directive == "lapin=off"), "{read}");
            assert!(!read.contains("lapin=trace") && !read.contains("lapin=debug"), "{read}");
        }
    }
}
