//! Bytes on disk: one immutable cache per source, written atomically and opened by mapping.
//!
//! A cache is a directory of payload shards, an index with one address and one checksum a record,
//! and a metadata table. [`CacheWriter`] builds one in a directory of its own and publishes it with a
//! rename; [`Cache`] opens one in time that depends on the number of shards, not of records. The
//! crate knows nothing of sampling or of Python.

#![allow(
    clippy::missing_errors_doc,
    reason = "every fallible call returns StoreError"
)]

mod advice;
mod blocks;
mod build;
mod build_lock;
mod cache;
mod checksum;
mod column;
mod compression;
mod error;
mod files;
pub mod format;
mod index;
mod journal;
mod leftovers;
mod long_copy;
mod manifest;
mod metadata;
mod metadata_assembly;
mod metadata_builder;
mod mmap;
mod name;
mod payload_file;
mod payload_sizes;
mod pipeline;
mod record;
mod shard;
mod shard_writer;
mod streams;
mod verify;
mod write_back;
mod writer;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod xxh3;

pub use advice::Stretch;
pub use build_lock::{BuildLock, Holder, LockAttempt};
pub use cache::{Backend, Cache, Location};
pub use checksum::record_checksum;
pub use column::{Column, ColumnType, Value};
pub use compression::{Algorithm, Compression};
pub use error::StoreError;
pub use leftovers::{BuildStatus, Reclaim, list_builds, reclaim_builds};
pub use manifest::{FileEntry, Manifest, ShardEntry};
pub use metadata::{Metadata, MetadataRow};
pub use mmap::{Map, Unwritten, Written};
pub use name::{SourceName, cache_id_of_name};
pub use payload_sizes::PayloadSizes;
pub use pipeline::StageTimes;
pub use record::{Destination, Part, Record};
pub use writer::{CacheWriter, WriterOptions};
