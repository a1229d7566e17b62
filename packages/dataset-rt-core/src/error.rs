//! Every error of the Rust crates as the Python exception that stands for it.

use std::io;
use std::path::Path;

use dataset_rt_reader::ReaderError;
use dataset_rt_sampler::SamplerError;
use dataset_rt_store::StoreError;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};

/// Exceptions defined in Python, so that they pickle across processes.
mod exceptions {
    pyo3::import_exception!(dataset_rt.exceptions, CacheIOError);
    pyo3::import_exception!(dataset_rt.exceptions, CacheNotFoundError);
    pyo3::import_exception!(dataset_rt.exceptions, CachePermissionError);
    pyo3::import_exception!(dataset_rt.exceptions, ConfigError);
    pyo3::import_exception!(dataset_rt.exceptions, CorruptCacheError);
    pyo3::import_exception!(dataset_rt.exceptions, DatasetClosedError);
    pyo3::import_exception!(dataset_rt.exceptions, DatasetRtError);
    pyo3::import_exception!(dataset_rt.exceptions, InvalidRecordError);
    pyo3::import_exception!(dataset_rt.exceptions, MetadataTableError);
    pyo3::import_exception!(dataset_rt.exceptions, PositionError);
    pyo3::import_exception!(dataset_rt.exceptions, SampleNotFoundError);
    pyo3::import_exception!(dataset_rt.exceptions, SchemaMismatchError);
    pyo3::import_exception!(dataset_rt.exceptions, SourceNameError);
    pyo3::import_exception!(dataset_rt.exceptions, UnsupportedCacheError);
    pyo3::import_exception!(dataset_rt.exceptions, WeightError);
}

pub(crate) use exceptions::{ConfigError, InvalidRecordError};

use exceptions::{
    CacheIOError, CacheNotFoundError, CachePermissionError, CorruptCacheError, DatasetClosedError,
    DatasetRtError, MetadataTableError, PositionError, SampleNotFoundError, SchemaMismatchError,
    SourceNameError, UnsupportedCacheError, WeightError,
};

/// Any error below the binding, on its way to Python.
pub(crate) struct CoreError(ReaderError);

impl<E: Into<ReaderError>> From<E> for CoreError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<CoreError> for PyErr {
    fn from(CoreError(error): CoreError) -> Self {
        reader_error(error)
    }
}

fn reader_error(error: ReaderError) -> PyErr {
    let message = error.to_string();
    match error {
        ReaderError::Store(error) => store_error(error),
        ReaderError::Sampler(error) => sampler_error(&error),
        ReaderError::NoCaches => ConfigError::new_err(message),
        ReaderError::DuplicateCache { .. } | ReaderError::SchemasDiffer { .. } => {
            SchemaMismatchError::new_err(message)
        }
        ReaderError::UnknownCache { .. } | ReaderError::UnknownSample { .. } => {
            SampleNotFoundError::new_err(message)
        }
        ReaderError::RowOutOfRange { .. }
        | ReaderError::PositionRange { .. }
        | ReaderError::StreamEnd { .. } => PositionError::new_err(message),
        ReaderError::NotStackable { .. } => InvalidRecordError::new_err(message),
        ReaderError::NoViews { .. } => ConfigError::new_err(message),
        ReaderError::Cancelled => DatasetRtError::new_err(message),
        ReaderError::TableRefused { .. } => MetadataTableError::new_err(message),
        ReaderError::WeightCount { .. } => WeightError::new_err(message),
        ReaderError::Io {
            operation,
            path,
            source,
        } => io_error(operation, &path, &source),
        ReaderError::Arrow { .. }
        | ReaderError::Threads { .. }
        | ReaderError::BadSnapshot { .. } => DatasetRtError::new_err(message),
        ReaderError::OutOfMemory { .. } => PyMemoryError::new_err(message),
        ReaderError::ReaderPanic => PyRuntimeError::new_err(message),
        ReaderError::Closed => DatasetClosedError::new_err(message),
    }
}

fn store_error(error: StoreError) -> PyErr {
    let message = error.to_string();
    match error {
        StoreError::Io {
            operation,
            path,
            source,
        } => io_error(operation, &path, &source),
        StoreError::NotFound { .. } => CacheNotFoundError::new_err(message),
        StoreError::DamagedManifest { .. }
        | StoreError::FileLength { .. }
        | StoreError::FileMissing { .. }
        | StoreError::FileDigest { .. }
        | StoreError::BlockChecksum { .. }
        | StoreError::RecordChecksum { .. }
        | StoreError::RecordAddress { .. }
        | StoreError::RecordCodec { .. }
        | StoreError::RecordLength { .. }
        | StoreError::DamagedDictionary { .. }
        | StoreError::DamagedMetadata { .. }
        | StoreError::FileShrank { .. } => CorruptCacheError::new_err(message),
        StoreError::Unsupported { .. } => UnsupportedCacheError::new_err(message),
        StoreError::SampleOutOfRange { .. } => SampleNotFoundError::new_err(message),
        StoreError::InvalidName { .. } => SourceNameError::new_err(message),
        StoreError::ColumnType { .. }
        | StoreError::ColumnNames { .. }
        | StoreError::InvalidColumn { .. }
        | StoreError::EmptySource { .. }
        | StoreError::TooLarge { .. } => InvalidRecordError::new_err(message),
        StoreError::BuildRemoved { .. }
        | StoreError::ForkedBuild { .. }
        | StoreError::FileReplaced { .. }
        | StoreError::NameTaken { .. }
        | StoreError::Cancelled { .. }
        | StoreError::Codec { .. } => DatasetRtError::new_err(message),
        StoreError::NoLocks { path, source } => io_error(NO_LOCKS, &path, &source),
        StoreError::PipelinePanic { .. } => PyRuntimeError::new_err(message),
    }
}

fn sampler_error(error: &SamplerError) -> PyErr {
    let message = error.to_string();
    match error {
        SamplerError::InvalidWeights { .. } | SamplerError::UnequalWeights { .. } => {
            WeightError::new_err(message)
        }
        SamplerError::Stopped
        | SamplerError::EmptyPopulation
        | SamplerError::NoEligibleRows
        | SamplerError::WeightTableLength { .. }
        | SamplerError::UnusedWeightTable { .. }
        | SamplerError::UnusedEligibleRows { .. }
        | SamplerError::TooManyEligibleRows { .. }
        | SamplerError::DamagedTable { .. }
        | SamplerError::FlatLength { .. }
        | SamplerError::FlatRange { .. }
        | SamplerError::FlatAlignment { .. } => DatasetRtError::new_err(message),
        SamplerError::ZeroPlanNumber { .. }
        | SamplerError::PlanNumberTooLarge { .. }
        | SamplerError::RankOutOfRange { .. } => ConfigError::new_err(message),
        SamplerError::BatchOutOfRange { .. } | SamplerError::PositionOverflow { .. } => {
            PositionError::new_err(message)
        }
    }
}

/// What file systems without locks are told.
const NO_LOCKS: &str = "lock a build directory on this file system, which keeps two processes from \
     building one cache (hint: build on another file system and move the cache here)";

/// An `OSError` with `errno`, `strerror` and `filename`.
fn io_error(operation: &str, path: &Path, source: &io::Error) -> PyErr {
    let reason = source.to_string();
    let code = source.raw_os_error();
    let suffix = code.map_or_else(String::new, |code| format!(" (os error {code})"));
    let message = format!("cannot {operation}: {}", reason.trim_end_matches(&suffix));
    let arguments = (code, message, path.to_string_lossy().into_owned());
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            CachePermissionError::new_err(arguments)
        }
        _ => CacheIOError::new_err(arguments),
    }
}
