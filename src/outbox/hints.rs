//! Bells: who has just committed messages rings for their destination, and its lane looks at once.
//!
//! A hint and nothing more: a lane that hears none finds the messages when it polls.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;

/// A bell for each destination that this process delivers to. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hints(Arc<RwLock<HashMap<Arc<str>, Arc<Notify>>>>);

impl Hints {
    /// Bells for these destinations; ringing for another one does nothing.
    pub fn new(destinations: impl IntoIterator<Item = Arc<str>>) -> Self {
        let bells = destinations.into_iter().map(|name| (name, Arc::default())).collect();
        Self(Arc::new(RwLock::new(bells)))
    }

    /// Bells for these destinations from now on; who is known keeps the bell.
    pub fn replace(&self, destinations: impl IntoIterator<Item = Arc<str>>) {
        let mut bells = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::take(&mut *bells);
        *bells = destinations
            .into_iter()
            .map(|name| {
                let bell = known.get(&name).cloned().unwrap_or_default();
                (name, bell)
            })
            .collect();
    }

    /// Something was written for this destination. Several rings before a look count as one.
    pub fn ring(&self, destination: &str) {
        if let Some(bell) = self.bells().get(destination) {
            bell.notify_one();
        }
    }

    /// Something may have been written for any of them.
    pub fn ring_all(&self) {
        self.bells().values().for_each(|bell| bell.notify_one());
    }

    pub(super) fn bell(&self, destination: &str) -> Arc<Notify> {
        self.bells().get(destination).cloned().unwrap_or_default()
    }

    fn bells(&self) -> std::sync::RwLockReadGuard<'_, HashMap<Arc<str>, Arc<Notify>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
