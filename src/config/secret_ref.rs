//! Where a secret is: in the environment, in a file, or written out.
//!
//! A reference says where to look; [`SecretRef::resolve`] looks. Messages name the reference and
//! the key that holds it, never the secret.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

use crate::secret::Secret;

use super::environment::Environment;

/// What stands before the path of a file.
pub(super) const FILE_PREFIX: &str = "file:";

/// A secret as the configuration writes it.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// `env:NAME`
    Variable(String),
    /// `file:PATH`; a newline at the end of the file does not count.
    File(PathBuf),
    /// The secret itself. `check` warns.
    Literal(Secret),
}

impl SecretRef {
    /// Reads what the configuration holds.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("env:") {
            Self::Variable(name.to_owned())
        } else if let Some(path) = text.strip_prefix(FILE_PREFIX) {
            Self::File(path.into())
        } else {
            Self::Literal(Secret::new(text))
        }
    }

    #[must_use]
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    /// The secret that this refers to.
    ///
    /// # Errors
    /// In words, when there is none or it is empty.
    pub fn resolve(&self, environment: &Environment) -> Result<Secret, String> {
        let text = match self {
            Self::Variable(name) => match environment.get(name) {
                Some("") => return Err(format!("the environment variable {name} is empty; give it a value")),
                Some(value) => value.to_owned(),
                None => {
                    return Err(format!(
                        "the environment variable {name} is not set; set it, or refer to another with env:NAME or file:PATH"
                    ));
                }
            },
            Self::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                let text = text.strip_suffix('\n').unwrap_or(&text);
                text.strip_suffix('\r').unwrap_or(text).to_owned()
            }
            Self::Literal(secret) => return non_empty(secret.clone(), "the secret is empty"),
        };
        non_empty(Secret::new(text), "the secret it refers to is empty")
    }
}

fn non_empty(secret: Secret, otherwise: &str) -> Result<Secret, String> {
    if secret.expose().is_empty() { Err(format!("{otherwise}; give it a value")) } else { Ok(secret) }
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Literal(_) => f.write_str("[secret]"),
        }
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretText)
    }
}

/// Refuses numbers without repeating them: serde's own message would show the value.
struct SecretText;

impl SecretText {
    fn refuse<T, E: de::Error>() -> Result<T, E> {
        Err(E::custom("a secret is a text in quotes: \"env:NAME\", \"file:PATH\" or the secret itself"))
    }
}

impl de::Visitor<'_> for SecretText {
    type Value = SecretRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text: \"env:NAME\", \"file:PATH\" or the secret itself")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretRef, E> {
        Ok(SecretRef::parse(text))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<SecretRef, E> {
        Self::refuse()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<SecretRef, E> {
        Self::refuse()
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<SecretRef, E> {
        Self::refuse()
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<SecretRef, E> {
        Self::refuse()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<SecretRef, E> {
        Self::refuse()
    }
}
