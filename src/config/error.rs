//! What is wrong with a configuration: every finding, each with its place and the way out.
//!
//! Guarantees that no value of a secret and no database password is in a message: findings quote
//! keys, never the values of secrets.

use std::fmt;

/// Where a finding is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of the configuration file, counted from 1.
    Line { file: String, line: usize },
    /// An environment variable.
    Variable(String),
    /// The file as a whole, or its absence.
    File(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::File(file) => f.write_str(file),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub place: Place,
    /// The key it is about, as in `source[0].name`; empty when it is about the file.
    pub key: String,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.place, self.message)
        } else {
            write!(f, "{}: {}: {}", self.place, self.key, self.message)
        }
    }
}

/// Everything that is wrong with a configuration, in the order of the file; at least one finding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(findings))]
pub struct ConfigError {
    pub findings: Vec<Finding>,
}

impl ConfigError {
    pub(super) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| a.place.cmp(&b.place));
        Self { findings }
    }
}

fn render(findings: &[Finding]) -> String {
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    match lines.as_slice() {
        [one] => format!("the configuration cannot be used\n  {one}"),
        many => {
            format!("the configuration cannot be used: {} problems\n  {}", many.len(), many.join("\n  "))
        }
    }
}
