//! One binary for all integration tests of the store.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod building;
mod changed_metadata;
mod continuing;
mod copying;
mod corruption;
mod name;
mod publish;
mod round_trip;
mod rows;
