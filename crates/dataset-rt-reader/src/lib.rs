//! Open caches and an active table, turned into samples and batches.
//!
//! A [`Dataset`] holds one immutable [`View`] at a time: the caches, the active rows, their weights
//! and the stream that draws from them. Editing the table makes a new view; iterators keep the one
//! they began with. A view resolves stream positions to records, gathers many of them in one call,
//! and reads ahead in the threads of a [`Pool`].

#![allow(
    clippy::missing_errors_doc,
    reason = "every fallible call returns ReaderError"
)]

mod active_table;
mod batch;
mod buffers;
mod caches;
mod coldness;
mod dataset;
mod error;
mod gather;
mod huge;
mod lookahead;
mod metadata_table;
mod options;
mod parallel;
mod pool;
mod prepared;
mod read_ahead;
mod snapshot;
mod stacking;
mod table_edit;
mod task;
mod verify;
mod view;
mod whole_table;

pub use active_table::{ActiveTable, RecordNumber};
pub use batch::{Batch, Gathered, Use};
pub use buffers::{Buffer, BufferStore};
pub use caches::{CacheSet, Placed, value_at};
pub use dataset::{Dataset, Edit};
pub use error::ReaderError;
pub use gather::{FoundRecords, PayloadPlace};
pub use huge::HugeArray;
pub use lookahead::Lookahead;
pub use metadata_table::{CACHE_ID_COLUMN, MetadataTable, SAMPLE_ID_COLUMN, WEIGHT_COLUMN};
pub use options::{DrawOptions, ReadOptions, SchemaRule};
pub use parallel::StopFlag;
pub use pool::{Pool, available_parallelism};
pub use prepared::{Chunk, Prepared};
pub use read_ahead::{
    BatchAhead, BatchGroup, BatchReadAhead, BatchWindow, SampleReadAhead, Step, Waiting,
};
pub use stacking::StackedArray;
pub use verify::{Damage, Verification, VerifyProgress, verify_cache};
pub use view::View;
