//! What can go wrong with a dataset.

use std::io;
use std::path::PathBuf;

use dataset_rt_sampler::SamplerError;
use dataset_rt_store::{Algorithm, StoreError};

/// Any failure of opening, editing or reading a dataset.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// A cache failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Weights, a table or a plan were refused.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// No cache was given.
    #[error("a dataset needs at least one cache")]
    NoCaches,
    /// Two paths lead to caches of one source.
    #[error(
        "{first} and {second} have the same cache id {cache_id}, as both were written from a \
         source named {name:?}\nhint: open one of them, or write one under another name",
        first = first.display(),
        second = second.display()
    )]
    DuplicateCache {
        /// Identity of both.
        cache_id: u64,
        /// Name of both.
        name: String,
        /// Path of one.
        first: PathBuf,
        /// Path of the other.
        second: PathBuf,
    },
    /// The caches have different columns.
    #[error("the caches have different metadata columns:\n{differences}{hint}")]
    SchemasDiffer {
        /// One line a difference.
        differences: String,
        /// What to do, where something can be done.
        hint: &'static str,
    },
    /// No cache has this identity.
    #[error("no cache of this dataset has the id {cache_id}")]
    UnknownCache {
        /// The identity that was asked for.
        cache_id: i64,
    },
    /// The cache has no such sample.
    #[error("cache {name:?} (id {cache_id}) has samples 0 to {last}, not {sample_id}")]
    UnknownSample {
        /// Identity of the cache.
        cache_id: u64,
        /// Its name.
        name: String,
        /// The sample that was asked for.
        sample_id: i64,
        /// Its last sample.
        last: u64,
    },
    /// A row number outside the table.
    #[error("row {row} is out of range: the active table has {rows} rows")]
    RowOutOfRange {
        /// The row that was asked for.
        row: i64,
        /// How many there are.
        rows: u64,
    },
    /// A range of positions that is not one.
    #[error("positions {start} to {stop} are no range of the stream")]
    PositionRange {
        /// First position.
        start: u64,
        /// One past the last.
        stop: u64,
    },
    /// An epoch that would pass the last position.
    #[error("an epoch of {epoch_len} samples from position {start} passes the end of the stream")]
    StreamEnd {
        /// First position.
        start: u64,
        /// Samples that were asked for.
        epoch_len: u64,
    },
    /// Memory for a result is not to be had.
    #[error("no memory for {what}: {bytes} bytes")]
    OutOfMemory {
        /// What the memory is for.
        what: &'static str,
        /// How much.
        bytes: u64,
    },
    /// A payload that does not lie in a map as it is.
    #[error(
        "no views into cache {cache:?} (compression {algorithm}): views need payloads that are \
         stored as they are, and the map backend\nhint: use `data` or `buffer`"
    )]
    NoViews {
        /// Name of the cache.
        cache: String,
        /// Its codec.
        algorithm: Algorithm,
    },
    /// A verification was called off.
    #[error("the verification was called off")]
    Cancelled,
    /// A table given for an update was refused; nothing changed.
    #[error("metadata table refused: {reason}")]
    TableRefused {
        /// What does not hold.
        reason: String,
    },
    /// The weights do not have one value a row.
    #[error("{found} weights for an active table of {expected} rows")]
    WeightCount {
        /// Rows of the table.
        expected: u64,
        /// Weights that were given.
        found: u64,
    },
    /// An Arrow call failed on metadata that is in memory.
    #[error("metadata cannot be put together: {source}")]
    Arrow {
        /// What Arrow said.
        #[from]
        source: arrow_schema::ArrowError,
    },
    /// A snapshot or a work file failed.
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A snapshot cannot be used.
    #[error("snapshot {path} cannot be used: {reason}", path = path.display())]
    BadSnapshot {
        /// The snapshot directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The thread pool could not be built.
    #[error("cannot start {threads} reader threads: {reason}")]
    Threads {
        /// How many.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// A reader thread ended without a result.
    #[error("a reader thread panicked")]
    ReaderPanic,
    /// The dataset was closed.
    #[error("the dataset is closed")]
    Closed,
}

impl ReaderError {
    /// Makes room for `length` values, where the length follows from what a caller asked for.
    pub(crate) fn try_zeroed<T: Clone + Default>(
        length: usize,
        what: &'static str,
    ) -> Result<Vec<T>, Self> {
        let mut values = Vec::new();
        values
            .try_reserve_exact(length)
            .map_err(|_| Self::no_memory(length.saturating_mul(size_of::<T>()), what))?;
        values.resize(length, T::default());
        Ok(values)
    }

    pub(crate) fn no_memory(bytes: usize, what: &'static str) -> Self {
        Self::OutOfMemory {
            what,
            bytes: bytes as u64,
        }
    }

    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            operation,
            path,
            source,
        }
    }
}
