//! What can go wrong with a cache on disk.

use std::io;
use std::path::PathBuf;

use crate::compression::Algorithm;

/// Any failure of writing, opening or reading a cache.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused a call.
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, as a verb: `open`, `write`, `rename`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path does not exist, or is a directory without a manifest.
    #[error(
        "no complete cache at {path}: {reason}\nhint: write it with DatasetRuntime.write_cache, \
         and pass the directory of one cache, not its parent",
        path = path.display()
    )]
    NotFound {
        /// The path that was opened.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// The manifest is not what was written.
    #[error("damaged manifest {path}: {reason}", path = path.display())]
    DamagedManifest {
        /// The manifest.
        path: PathBuf,
        /// What does not hold.
        reason: String,
    },
    /// The cache needs a newer release.
    #[error("{path} has {what} {found:?}, this release reads {supported:?}", path = path.display())]
    Unsupported {
        /// The manifest.
        path: PathBuf,
        /// Which field.
        what: &'static str,
        /// Its value.
        found: String,
        /// The values that are understood.
        supported: String,
    },
    /// A file has another length than its manifest says.
    #[error("{path} has {found} bytes, its manifest says {expected}", path = path.display())]
    FileLength {
        /// The file.
        path: PathBuf,
        /// Length in the manifest.
        expected: u64,
        /// Length on disk.
        found: u64,
    },
    /// A file of a cache is missing.
    #[error("{path} is missing", path = path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
    },
    /// A file as a whole does not have the digest in its manifest.
    #[error("{path} has digest {found}, its manifest says {expected}", path = path.display())]
    FileDigest {
        /// The file.
        path: PathBuf,
        /// BLAKE3 in the manifest.
        expected: String,
        /// BLAKE3 of the bytes on disk.
        found: String,
    },
    /// A block of the index or of the metadata does not have its checksum.
    #[error(
        "damaged block {block} of {path}: checksum {found:#010x}, expected {expected:#010x}",
        path = path.display()
    )]
    BlockChecksum {
        /// The file.
        path: PathBuf,
        /// Which block of 64 KiB.
        block: u64,
        /// Checksum that was written.
        expected: u32,
        /// Checksum of the bytes now.
        found: u32,
    },
    /// A payload does not have its checksum.
    #[error(
        "damaged sample {sample} in {path}: checksum {found:#010x}, expected {expected:#010x}",
        path = path.display()
    )]
    RecordChecksum {
        /// The shard.
        path: PathBuf,
        /// Sample number in its cache.
        sample: u64,
        /// Checksum in the index.
        expected: u32,
        /// Checksum of the bytes now.
        found: u32,
    },
    /// A stored record is nothing that its codec wrote.
    #[error(
        "damaged sample {sample} in {path}: not a {algorithm} record of its length: {reason}",
        path = path.display()
    )]
    RecordCodec {
        /// The shard.
        path: PathBuf,
        /// Sample number in its cache.
        sample: u64,
        /// Codec of the cache.
        algorithm: Algorithm,
        /// What the codec says.
        reason: String,
    },
    /// The lengths of a record cannot be right.
    #[error(
        "damaged index {path}: sample {sample} has {stored_bytes} stored bytes, which its payload \
         length does not fit",
        path = path.display()
    )]
    RecordLength {
        /// The index.
        path: PathBuf,
        /// Sample number in its cache.
        sample: u64,
        /// Length in the shard.
        stored_bytes: usize,
    },
    /// A dictionary is none that its codec wrote.
    #[error("damaged dictionary {path}: {reason}", path = path.display())]
    DamagedDictionary {
        /// The dictionary.
        path: PathBuf,
        /// What the codec says.
        reason: String,
    },
    /// A codec refused its settings.
    #[error("cannot use the codec of {path}: {reason}", path = path.display())]
    Codec {
        /// The cache.
        path: PathBuf,
        /// What the codec says.
        reason: String,
    },
    /// An address lies outside the shard that holds the sample.
    #[error(
        "damaged index {path}: sample {sample} at addresses {start}..{stop}, \
         its shard covers {shard_start}..{shard_stop}",
        path = path.display()
    )]
    RecordAddress {
        /// The index.
        path: PathBuf,
        /// Sample number in its cache.
        sample: u64,
        /// First address of the record.
        start: u64,
        /// One past its last address.
        stop: u64,
        /// First address of the shard.
        shard_start: u64,
        /// One past its last address.
        shard_stop: u64,
    },
    /// The metadata file is not the table that the manifest describes.
    #[error("damaged metadata {path}: {reason}", path = path.display())]
    DamagedMetadata {
        /// The metadata file.
        path: PathBuf,
        /// What does not hold.
        reason: String,
    },
    /// A mapped file was cut short, or its disk failed, after it was opened.
    #[error(
        "{path} was cut short or could not be read after it was opened",
        path = path.display()
    )]
    FileShrank {
        /// The file.
        path: PathBuf,
    },
    /// A sample number outside the cache.
    #[error("cache {cache:?} has samples 0 to {last}, not {sample}", last = samples - 1)]
    SampleOutOfRange {
        /// Name of the cache.
        cache: String,
        /// The number that was asked for.
        sample: u64,
        /// How many there are.
        samples: u64,
    },
    /// A source name cannot become a directory.
    #[error("source name {name:?} {reason}")]
    InvalidName {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A value does not fit its column.
    #[error("sample {sample}, column {column:?}: expected {expected}, found {found}")]
    ColumnType {
        /// Sample number, from 0.
        sample: u64,
        /// Column name.
        column: String,
        /// What the column holds since an earlier row.
        expected: &'static str,
        /// The offending value.
        found: String,
    },
    /// A row has other columns than the first row.
    #[error("sample {sample}: metadata has {found}, the first sample has {expected}")]
    ColumnNames {
        /// Sample number, from 0.
        sample: u64,
        /// Columns of the first row.
        expected: String,
        /// Columns of this row.
        found: String,
    },
    /// A column name that is empty or belongs to the product.
    #[error("sample 0: column name {column:?} {reason}")]
    InvalidColumn {
        /// The name.
        column: String,
        /// Why not.
        reason: &'static str,
    },
    /// The source yielded nothing.
    #[error("source {name:?} yielded no samples")]
    EmptySource {
        /// Name of the source.
        name: String,
    },
    /// Another build of the same source was published first, or the name is taken.
    #[error("{path} exists already and is no complete cache", path = path.display())]
    NameTaken {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody removed the directory that a cache is being built in.
    #[error("{path} was removed, or replaced, while a cache was being built in it", path = path.display())]
    BuildRemoved {
        /// The build directory.
        path: PathBuf,
    },
    /// A build was used in a child process that its builder forked.
    #[error(
        "cache {name:?} is being built by process {process}, and cannot be by a process that it forked"
    )]
    ForkedBuild {
        /// Name of the source.
        name: String,
        /// The builder.
        process: u32,
    },
    /// A payload file is another one than when the cache was opened.
    #[error(
        "{path} was replaced after its cache was opened\nhint: open the dataset again",
        path = path.display()
    )]
    FileReplaced {
        /// The file.
        path: PathBuf,
    },
    /// The file system cannot lock files.
    #[error(
        "cannot lock {path}: {source}\nhint: the file system has no file locks, which keep two \
         processes from building one cache; build it on another one and move the directory here",
        path = path.display()
    )]
    NoLocks {
        /// The build directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A size does not fit the address space of a cache.
    #[error("sample {sample}: the cache would exceed 2^63 bytes")]
    TooLarge {
        /// Sample number, from 0.
        sample: u64,
    },
    /// The build was called off before it was published.
    #[error("the build of {name:?} was called off")]
    Cancelled {
        /// Name of the source.
        name: String,
    },
    /// A thread of the build pipeline ended without a result.
    #[error("a thread of the build of {name:?} panicked")]
    PipelinePanic {
        /// Name of the source.
        name: String,
    },
}

impl StoreError {
    /// An I/O failure, as a closure for `map_err`.
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

    /// Says whether the error means that a cache holds other bytes than were written.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(
            self,
            Self::DamagedManifest { .. }
                | Self::FileLength { .. }
                | Self::FileMissing { .. }
                | Self::FileDigest { .. }
                | Self::BlockChecksum { .. }
                | Self::RecordChecksum { .. }
                | Self::RecordCodec { .. }
                | Self::RecordLength { .. }
                | Self::RecordAddress { .. }
                | Self::DamagedDictionary { .. }
                | Self::DamagedMetadata { .. }
                | Self::FileShrank { .. }
        )
    }
}
