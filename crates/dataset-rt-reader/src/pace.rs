//! Who prepares samples, the consumer or the threads of the pool: learnt from how long it takes.

use std::time::Duration;

/// If all that may be prepared ahead takes less than this, the consumer had better do it itself.
const WORTH_WAKING_BYTES: u64 = 256 << 10;
/// Samples that a consumer prepares at first.
const FIRST_SAMPLES: u64 = 8;
/// A small sample takes longer than this if it does not come from memory.
const SLOW_SAMPLE: Duration = Duration::from_micros(10);
/// So many slow chunks in a row are no chance.
const SLOW_CHUNKS: u32 = 2;
/// So many quick chunks in a row say that samples come from memory again.
const QUICK_CHUNKS: u32 = 8;

/// Who prepares small samples: the consumer, as long as they come from memory, which takes less time
/// than handing them over from thread to thread; the pool, once they come from somewhere slower.
#[derive(Debug)]
pub(crate) struct Pace {
    reads_here: bool,
    /// Whether there is a choice.
    may_change: bool,
    /// Samples that the consumer prepares next; few until it is known how long they take.
    samples: u64,
    most_samples: u64,
    /// Chunks in a row that speak for the other way.
    contrary_chunks: u32,
}

impl Pace {
    /// `window_bytes` is what may be prepared ahead, in chunks of up to `most_samples`.
    pub(crate) fn new(window_bytes: u64, most_samples: u64) -> Self {
        let is_small = window_bytes < WORTH_WAKING_BYTES;
        Self {
            reads_here: is_small,
            may_change: is_small,
            samples: FIRST_SAMPLES.min(most_samples),
            most_samples,
            contrary_chunks: 0,
        }
    }

    /// Says whether the consumer prepares the next samples.
    pub(crate) fn reads_here(&self) -> bool {
        self.reads_here
    }

    /// How many it prepares.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Leaves everything to the pool, from now on.
    pub(crate) fn leave_to_pool(&mut self) {
        self.reads_here = false;
        self.may_change = false;
    }

    /// Learns how long a chunk took, whoever prepared it.
    pub(crate) fn observe(&mut self, samples: u32, duration: Duration) {
        if !self.may_change {
            return;
        }
        let is_slow = duration > SLOW_SAMPLE.saturating_mul(samples.max(1));
        self.samples = if is_slow {
            FIRST_SAMPLES.min(self.most_samples)
        } else {
            self.most_samples.min(self.samples.saturating_mul(2))
        };
        if is_slow != self.reads_here {
            self.contrary_chunks = 0;
            return;
        }
        self.contrary_chunks += 1;
        let enough = if self.reads_here {
            SLOW_CHUNKS
        } else {
            QUICK_CHUNKS
        };
        if self.contrary_chunks >= enough {
            self.reads_here = !self.reads_here;
            self.contrary_chunks = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(5);
    const SLOW: Duration = Duration::from_millis(20);

    #[test]
    fn a_consumer_begins_with_few_samples_and_goes_on_with_more() {
        let mut pace = Pace::new(1 << 16, 60);
        let mut samples = Vec::new();
        for _ in 0..5 {
            samples.push(pace.samples());
            pace.observe(8, QUICK);
        }
        assert_eq!(samples, [8, 16, 32, 60, 60]);
        assert!(pace.reads_here());
    }

    #[test]
    fn one_slow_chunk_is_chance_and_two_are_a_disk() {
        let mut pace = Pace::new(1 << 16, 64);
        pace.observe(8, SLOW);
        pace.observe(8, QUICK);
        pace.observe(8, SLOW);
        assert!(pace.reads_here());
        assert_eq!(pace.samples(), 8);
        pace.observe(8, SLOW);
        assert!(!pace.reads_here());
    }

    #[test]
    fn the_pool_gives_samples_back_that_have_been_quick_for_long() {
        let mut pace = Pace::new(1 << 16, 64);
        pace.observe(8, SLOW);
        pace.observe(8, SLOW);
        for _ in 1..QUICK_CHUNKS {
            pace.observe(64, QUICK);
            assert!(!pace.reads_here());
        }
        pace.observe(64, QUICK);
        assert!(pace.reads_here());
    }

    #[test]
    fn much_data_and_what_was_left_to_the_pool_stay_with_it() {
        let mut much = Pace::new(1 << 20, 64);
        let mut left = Pace::new(1 << 16, 64);
        left.leave_to_pool();
        for pace in [&mut much, &mut left] {
            for _ in 0..2 * QUICK_CHUNKS {
                pace.observe(64, QUICK);
            }
            assert!(!pace.reads_here());
        }
    }
}
