//! Bytes on disk: one immutable cache per source, written atomically and opened by mapping.
//!
//! A cache is a directory of payload shards, an index with one address and one checksum a record,
//! and a metadata table. [`CacheWriter`] builds one in a staging directory and publishes it with a
//! rename; [`Cache`] opens one in time that depends on the number of shards, not of records. The
//! crate knows nothing of sampling or of Python.

#![allow(
    clippy::missing_errors_doc,
    reason = "every fallible call returns StoreError"
)]

mod blocks;
mod cache;
mod checksum;
mod column;
mod error;
mod files;
pub mod format;
mod index;
mod manifest;
mod metadata;
mod metadata_assembly;
mod metadata_builder;
mod mmap;
mod name;
mod pipeline;
mod shard;
mod staging;
mod verify;
mod writer;

pub use cache::{Cache, Location, Record};
pub use checksum::record_checksum;
pub use column::{Column, ColumnType, Value};
pub use error::StoreError;
pub use manifest::{FileEntry, Manifest, ShardEntry};
pub use metadata::{Metadata, MetadataRow};
pub use mmap::Map;
pub use name::{SourceName, cache_id_of_name};
pub use writer::{CacheWriter, WriterOptions};
