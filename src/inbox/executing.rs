//! Which deliveries a writer is working on right now.
//!
//! Asked only by a delivery that has waited longer than it should; written once a batch.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use super::Marks;

/// The deliveries of the batch in work, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Executing(Mutex<Vec<(Marks, Uuid)>>);

impl Executing {
    /// A batch begins.
    pub fn begin(&self, deliveries: impl Iterator<Item = (Marks, Uuid)>) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clear();
        current.extend(deliveries);
    }

    /// The batch is over.
    pub fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether a delivery other than `id` that is about the same thing is being worked on and
    /// came first.
    pub fn holds_for_another(&self, marks: Marks, id: Uuid) -> bool {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.iter().find(|(other, _)| marks.touches(*other)).is_some_and(|(_, first)| *first != id)
    }
}
