//! One binary for all integration tests of the sampler.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in functions that several tests share"
)]

mod flat;
mod golden_vectors;
mod known_answers;
mod parallel_tables;
mod permutations;
mod plan;
mod properties;
mod statistics;
mod tables;
mod weights;
