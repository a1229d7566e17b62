from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, final

import numpy as np
import numpy.typing as npt

from dataset_rt.records import CachedSample

__all__ = [
    "Batch",
    "BatchBuffer",
    "BatchIterator",
    "BuildHolder",
    "BuildLock",
    "BuildReport",
    "BuildStatus",
    "Dataset",
    "ExistingCache",
    "MappedBytes",
    "MetadataTable",
    "PayloadSizes",
    "PendingBatch",
    "SampleIterator",
    "ThreadPool",
    "Verification",
    "WindowPlan",
    "__version__",
    "array_layout",
    "available_parallelism",
    "build_cache",
    "build_profile",
    "cache_at",
    "existing_cache",
    "format_version",
    "list_builds",
    "normalize_source_name",
    "pack_arrays",
    "payload_sizes",
    "reclaim_builds",
    "sampler_version",
    "stack_arrays",
    "try_lock_build",
    "verify_cache",
]

__version__: str
build_profile: Literal["release", "debug"]
format_version: int
sampler_version: int

def available_parallelism() -> int: ...
def normalize_source_name(name: str) -> str: ...
def cache_at(path: str) -> ExistingCache | None: ...
def existing_cache(base_path: str, name: str) -> ExistingCache | None: ...
def try_lock_build(base_path: str, name: str) -> BuildLock | BuildHolder: ...
def build_cache(
    lock: BuildLock,
    name: str,
    records: Callable[[int], Iterable[Any]],
    *,
    fingerprint: str | None,
    max_shard_bytes: int,
    prefetch_size: int,
    compression: str,
    level: int | None,
    dictionary: bool,
    threads: int,
    is_resumable: bool,
    is_profiled: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BuildReport: ...
def list_builds(base_path: str) -> list[BuildStatus]: ...
def reclaim_builds(base_path: str, continuable_too: bool) -> list[BuildStatus]: ...
def payload_sizes(path: str) -> PayloadSizes: ...
def verify_cache(
    path: str,
    pool: ThreadPool,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Verification: ...

@final
class ExistingCache:
    path: str
    cache_id: int
    name: str
    samples: int
    payload_bytes: int
    stored_bytes: int
    compression: str
    fingerprint: str | None

@final
class BuildLock:
    def release(self) -> None: ...

@final
class BuildHolder:
    process: int | None
    host: str | None

@final
class BuildReport:
    path: str
    samples: int
    continued_samples: int
    payload_bytes: int
    source_seconds: float
    extract_seconds: float
    wait_seconds: float
    encode_seconds: float
    digest_seconds: float
    write_seconds: float
    sync_seconds: float
    finish_seconds: float
    total_seconds: float

@final
class BuildStatus:
    path: str
    name: str | None
    is_active: bool
    process: int | None
    host: str | None
    kept_samples: int
    bytes: int

@final
class Verification:
    name: str
    samples: int
    bytes: int
    damages: list[tuple[int | None, str]]

@final
class PayloadSizes:
    counts: list[int]
    smallest_bytes: int
    largest_bytes: int
    stored_as_is: int

@final
class ThreadPool:
    def __new__(cls, num_threads: int) -> ThreadPool: ...
    @property
    def num_threads(self) -> int: ...

@final
class Dataset:
    @staticmethod
    def open(
        paths: Sequence[str],
        pool: ThreadPool,
        *,
        seed: int,
        shuffle: bool,
        replacement: bool,
        prefetch_size: int,
        validate_cache: bool,
        verify_reads: bool,
        schema: str,
        backend: str,
    ) -> Dataset: ...
    @staticmethod
    def open_snapshot(directory: str, pool: ThreadPool, *, seed: int | None = None) -> Dataset: ...
    def export_snapshot(
        self, directory: str, *, seed: int, shuffle: bool, replacement: bool
    ) -> None: ...
    def __iter__(self) -> SampleIterator: ...
    def iter_batches(self, batch_size: int) -> BatchIterator: ...
    def iter_window(self, start: int, stop: int, *, reads_ahead: bool = True) -> SampleIterator: ...
    def batch_of_window(
        self, start: int, stop: int, padding_from: int | None = None, *, gathers: bool = True
    ) -> Batch: ...
    def begin_batch(
        self, start: int, stop: int, padding_from: int | None = None, *, stacks: bool = False
    ) -> PendingBatch: ...
    def samples_of_ids(
        self, cache_ids: npt.NDArray[np.int64], sample_ids: npt.NDArray[np.int64]
    ) -> list[CachedSample]: ...
    def sample_of_id(self, cache_id: SupportsIndex, sample_id: SupportsIndex) -> CachedSample: ...
    def sample_of_row(self, row: int) -> CachedSample: ...
    def batch_of_rows(self, rows: npt.NDArray[np.int64]) -> Batch: ...
    def draws(self, start: int, stop: int) -> npt.NDArray[np.int64]: ...
    def metadata_table(self) -> MetadataTable: ...
    def update_metadata(self, table: Any, null_columns: list[str]) -> None: ...
    def set_weights(self, weights: npt.NDArray[np.float64]) -> None: ...
    def set_epoch_len(self, epoch_len: int) -> None: ...
    def set_cursor(self, position: int) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def cursor(self) -> int: ...
    @property
    def epoch_len(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def table_is_edited(self) -> bool: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def caches(self) -> list[tuple[int, str, str, int]]: ...
    @property
    def columns(self) -> list[tuple[str, str]]: ...

@final
class SampleIterator:
    def __iter__(self) -> SampleIterator: ...
    def __next__(self) -> CachedSample: ...
    def __length_hint__(self) -> int: ...
    @property
    def position(self) -> int: ...

@final
class BatchIterator:
    def __iter__(self) -> BatchIterator: ...
    def __next__(self) -> Batch: ...
    @property
    def position(self) -> int: ...

@final
class PendingBatch:
    def result(self) -> Batch: ...

@final
class Batch:
    def __len__(self) -> int: ...
    @property
    def buffer(self) -> npt.NDArray[np.uint8]: ...
    @property
    def offsets(self) -> npt.NDArray[np.int64]: ...
    @property
    def cache_ids(self) -> npt.NDArray[np.int64]: ...
    @property
    def sample_ids(self) -> npt.NDArray[np.int64]: ...
    @property
    def rows(self) -> npt.NDArray[np.int64]: ...
    @property
    def positions(self) -> npt.NDArray[np.int64]: ...
    @property
    def is_padding(self) -> npt.NDArray[np.bool_]: ...
    def data(self) -> list[bytes]: ...
    def views(self) -> list[memoryview]: ...
    def samples(self) -> list[CachedSample]: ...
    def metadata_table(self) -> MetadataTable: ...

@final
class MetadataTable:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def column_types(self) -> list[Literal["bool", "int", "float", "str", "None"]]: ...
    def column(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]: ...

@final
class WindowPlan:
    def __new__(
        cls,
        *,
        budget: int,
        batch_size: int,
        rank: int,
        world_size: int,
        drop_last: bool,
    ) -> WindowPlan: ...
    @property
    def num_batches(self) -> int: ...
    @property
    def samples_per_rank(self) -> int: ...
    @property
    def padded_samples(self) -> int: ...
    @property
    def dropped_samples(self) -> int: ...
    def window(self, epoch: int, batch: int) -> tuple[int, int, int]: ...

@final
class BatchBuffer:
    def __len__(self) -> int: ...

@final
class MappedBytes:
    def __len__(self) -> int: ...

def pack_arrays(arrays: Sequence[tuple[str, str, Sequence[int], bytes]]) -> bytes: ...
def stack_arrays(
    batch: Batch, pad_axis: int | None
) -> list[tuple[str, str, list[int], npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]]: ...
def array_layout(data: bytes | npt.NDArray[np.uint8]) -> list[tuple[str, str, list[int], int]]: ...
