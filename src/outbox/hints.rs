//! Bells: who has just committed messages rings for their destination, and its lane looks at once.
//!
//! A hint and nothing more: a lane that hears none finds the messages when it polls.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// A bell for each destination that this process delivers to. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hints(Arc<HashMap<Arc<str>, Arc<Notify>>>);

impl Hints {
    /// Bells for these destinations; ringing for another one does nothing.
    pub fn new(destinations: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self(Arc::new(destinations.into_iter().map(|name| (name, Arc::default())).collect()))
    }

    /// Something was written for this destination. Several rings before a look count as one.
    pub fn ring(&self, destination: &str) {
        if let Some(bell) = self.0.get(destination) {
            bell.notify_one();
        }
    }

    /// Something may have been written for any of them.
    pub fn ring_all(&self) {
        self.0.values().for_each(|bell| bell.notify_one());
    }

    pub(super) fn bell(&self, destination: &str) -> Arc<Notify> {
        self.0.get(destination).cloned().unwrap_or_default()
    }
}
