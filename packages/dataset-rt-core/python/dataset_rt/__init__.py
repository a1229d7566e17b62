"""Cache preprocessed records once, and draw from them by weight, in exact and resumable order."""

import typing as _typing

from dataset_rt import build_profile as _build_profile
from dataset_rt._core import __version__
from dataset_rt.arrays import pack_arrays, unpack_arrays
from dataset_rt.batch import CachedBatch
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

if _typing.TYPE_CHECKING:
    from dataset_rt.config import (
        ReaderConfig,
        ShardCompression,
        WriterConfig,
        WriterProfilerConfig,
    )
else:
    # They need pydantic, a good part of the import, and loading workers do without them.
    from dataset_rt import deferred as _deferred

    __getattr__ = _deferred.load
    __dir__ = _deferred.names

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
