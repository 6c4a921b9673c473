//! How a subcommand fails: one message with its causes, and an exit code.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::process::ExitCode;

use crate::config::ConfigError;

/// Something went wrong.
const FAILED: u8 = 1;
/// The arguments or the configuration cannot be used (clap exits with this too).
const USAGE: u8 = 2;

/// Why a subcommand did not do what it should.
#[derive(Debug)]
pub struct Failure {
    /// Empty when everything has been said already.
    message: String,
    code: u8,
}

impl Failure {
    /// A message of its own.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED }
    }

    /// The arguments cannot be used.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// What was printed says it all.
    #[must_use]
    pub fn said() -> Self {
        Self::new("")
    }

    /// An error with all its causes.
    pub fn because(doing: &str, error: &dyn Error) -> Self {
        Self::new(format!("{doing}\n{}", indented(&causes(error))))
    }

    /// Writes the message to standard error.
    pub(super) fn print(&self) {
        if !self.message.is_empty() {
            eprintln!("hooklatch: {}", self.message);
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<crate::app::AppError> for Failure {
    fn from(error: crate::app::AppError) -> Self {
        Self::new(causes(&error))
    }
}

impl From<crate::lifecycle::RunError> for Failure {
    fn from(error: crate::lifecycle::RunError) -> Self {
        Self::new(causes(&error))
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        Self::new(causes(&error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and its causes, one a line.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = error.to_string();
        // Some libraries repeat their cause in their own message.
        if !text.ends_with(&line) {
            let _infallible = write!(text, "\n  because: {line}");
        }
        cause = error.source();
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
