//! Hostile caches: real ones, changed at random, with every checksum and digest made right again.
//!
//! Bytes that changed on a disk are stopped by checksums; `tests/it/corruption.rs` sees to that. Here
//! the checksums agree with the changed bytes, so that they reach the parsers. A target fails if
//! something panics, hangs, takes memory without measure, or gives other data than a second,
//! independent reading of the same files.
//!
//! Each target runs the same few cases every time. For more, and other ones each time:
//!
//! ```console
//! $ DATASET_RT_FUZZ_SECONDS=600 cargo test --release -p dataset-rt-store --test fuzz -- manifest
//! ```
//!
//! A failure names its case, which `DATASET_RT_FUZZ_CASE` repeats.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "../it/building.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests, which need more of it"
)]
mod building;
#[path = "../it/changed_metadata.rs"]
mod changed_metadata;
mod harness;
mod image;
mod lz4;
mod mutation;
mod random;
mod reading;
mod targets;
