"""Cache preprocessed records once, and draw from them by weight, in exact and resumable order."""

from dataset_rt import build_profile as _build_profile
from dataset_rt._core import __version__
from dataset_rt.arrays import pack_arrays, unpack_arrays
from dataset_rt.batch import CachedBatch
from dataset_rt.config import ReaderConfig, ShardCompression, WriterConfig, WriterProfilerConfig
from dataset_rt.dataset import CachedDataset
from dataset_rt.exceptions import (
    BuilderProcessError,
    CacheIOError,
    CacheNotFoundError,
    CachePermissionError,
    ConfigError,
    CorruptCacheError,
    DatasetClosedError,
    DatasetRtError,
    InvalidRecordError,
    MetadataTableError,
    PositionError,
    SampleNotFoundError,
    SchemaMismatchError,
    SourceNameError,
    StaleCacheError,
    StateMismatchError,
    TransformError,
    UnsupportedCacheError,
    WeightError,
)
from dataset_rt.file_fingerprints import fingerprint_files
from dataset_rt.maintenance import (
    CacheStatus,
    CacheVerification,
    Damage,
    remove_abandoned,
    status,
)
from dataset_rt.records import CachedSample, CacheInfo, CacheInput
from dataset_rt.results import (
    CacheSourcesDatasetError,
    CacheSourcesDatasetResult,
    CacheSourcesDatasetSuccess,
    CacheWriteError,
    CacheWriteResult,
    CacheWriteSuccess,
)
from dataset_rt.runtime import DatasetRuntime
from dataset_rt.sources import CacheSource

__all__ = [
    "BuilderProcessError",
    "CacheIOError",
    "CacheInfo",
    "CacheInput",
    "CacheNotFoundError",
    "CachePermissionError",
    "CacheSource",
    "CacheSourcesDatasetError",
    "CacheSourcesDatasetResult",
    "CacheSourcesDatasetSuccess",
    "CacheStatus",
    "CacheVerification",
    "CacheWriteError",
    "CacheWriteResult",
    "CacheWriteSuccess",
    "CachedBatch",
    "CachedDataset",
    "CachedSample",
    "ConfigError",
    "CorruptCacheError",
    "Damage",
    "DatasetClosedError",
    "DatasetRtError",
    "DatasetRuntime",
    "InvalidRecordError",
    "MetadataTableError",
    "PositionError",
    "ReaderConfig",
    "SampleNotFoundError",
    "SchemaMismatchError",
    "ShardCompression",
    "SourceNameError",
    "StaleCacheError",
    "StateMismatchError",
    "TransformError",
    "UnsupportedCacheError",
    "WeightError",
    "WriterConfig",
    "WriterProfilerConfig",
    "__version__",
    "fingerprint_files",
    "pack_arrays",
    "remove_abandoned",
    "status",
    "unpack_arrays",
]

del _build_profile
