//! Gathers what is wrong with values, so that one run names everything.

use super::environment::Environment;
use super::secret_ref::SecretRef;
use crate::secret::Secret;

/// What the checks of the sections found: a key and a sentence each.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) errors: Vec<(String, String)>,
    pub(super) warnings: Vec<(String, String)>,
}

impl Report {
    /// The configuration cannot be used.
    pub(super) fn error(&mut self, key: &str, message: impl Into<String>) {
        self.errors.push((key.to_owned(), message.into()));
    }

    /// It can be used, but somebody should look.
    pub(super) fn warn(&mut self, key: &str, message: impl Into<String>) {
        self.warnings.push((key.to_owned(), message.into()));
    }

    /// The secret a reference leads to; an error otherwise, and a warning when it is written out.
    pub(super) fn secret(
        &mut self,
        key: &str,
        reference: &SecretRef,
        environment: &Environment,
    ) -> Option<Secret> {
        if reference.is_literal() {
            self.warn(key, "the secret stands in the configuration; write env:NAME or file:PATH");
        }
        self.no_secret(key, reference, environment)
    }

    /// The same for what everybody may know, such as a public key.
    pub(super) fn no_secret(
        &mut self,
        key: &str,
        reference: &SecretRef,
        environment: &Environment,
    ) -> Option<Secret> {
        reference.resolve(environment).map_err(|message| self.error(key, message)).ok()
    }
}
