//! How often handlers fail, and what care a batch therefore needs.
//!
//! A trusted batch is by far the cheapest, but one failing event costs all of it: it is done again with
//! care. A careful batch costs every event something. Which is cheaper follows from how many failures
//! the batch may be expected to hold. Decides about speed alone: either way, each event takes effect
//! whole or not at all.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::inbox::apply::Care;

/// The share is kept in millionths.
const WHOLE: f32 = 1e6;

/// Over how many events the share of failures is averaged.
const MEMORY_EVENTS: f32 = 2_000.0;

/// Failures that a batch may be expected to hold and still be trusted. From a measurement: care costs a batch
/// a seventh of what a failed attempt does.
const TRUSTED_FAILURES: f32 = 0.15;

/// Failures that a chunk should hold: smaller chunks cost more subtransactions, larger ones repeat
/// more good events.
const CHUNK_FAILURES: f32 = 1.0;

/// The smallest and the largest chunk.
const CHUNKS: (f32, f32) = (8.0, 256.0);

/// The share of events that handlers fail on.
#[derive(Debug, Default)]
pub(super) struct Poison {
    millionths: AtomicU32,
}

impl Poison {
    /// The care for a batch of so many deliveries.
    pub fn care(&self, deliveries: usize) -> Care {
        if self.share() * count(deliveries) <= TRUSTED_FAILURES { Care::Trust } else { self.careful() }
    }

    /// The care for a batch in which something has failed.
    pub fn careful(&self) -> Care {
        let chunk = (CHUNK_FAILURES / self.share()).clamp(CHUNKS.0, CHUNKS.1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within CHUNKS")]
        let chunk = chunk as usize;
        Care::Chunks(chunk)
    }

    /// A batch is settled.
    pub fn note(&self, deliveries: usize, failed: usize) {
        if deliveries == 0 {
            return;
        }
        let weight = (count(deliveries) / MEMORY_EVENTS).min(1.0);
        let now = count(failed) / count(deliveries);
        let share = self.share() + (now - self.share()) * weight;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of one million")]
        let millionths = (share * WHOLE) as u32;
        self.millionths.store(millionths, Ordering::Relaxed);
    }

    fn share(&self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let millionths = self.millionths.load(Ordering::Relaxed) as f32;
        millionths / WHOLE
    }
}

#[expect(clippy::cast_precision_loss, reason = "batches are far smaller than what a float counts")]
fn count(events: usize) -> f32 {
    events as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_trusted_until_a_batch_must_be_expected_to_fail() {
        let poison = Poison::default();
        assert_eq!(poison.care(100_000), Care::Trust);
        // One in a hundred, for a while.
        for _ in 0..200 {
            poison.note(100, 1);
        }
        assert_eq!(poison.care(10), Care::Trust);
        let Care::Chunks(chunk) = poison.care(200) else { panic!("two of them will fail") };
        assert!((90..=110).contains(&chunk), "{chunk}");
    }

    #[test]
    fn trust_comes_back_when_nothing_fails() {
        let poison = Poison::default();
        poison.note(1_000, 1_000);
        assert_eq!(poison.care(100), Care::Chunks(8));
        for _ in 0..100 {
            poison.note(200, 0);
        }
        assert_eq!(poison.care(100), Care::Trust);
    }
}
