//! The environment as a value, so that tests decide what is in it.

use std::collections::BTreeMap;

/// Prefix of the variables that set configuration keys.
pub(super) const PREFIX: &str = "HOOKLATCH__";

/// Environment variables. Those that are not valid Unicode are left out. `Debug` shows no values.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The variables that set configuration keys, sorted by name.
    pub(super) fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter(|(name, _)| name.starts_with(PREFIX)).map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
