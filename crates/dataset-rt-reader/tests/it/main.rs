//! One binary for all integration tests of the reader.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod building;
mod caches;
mod cold;
mod read_ahead;
mod snapshot;
mod table;
