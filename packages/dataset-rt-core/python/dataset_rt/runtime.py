"""The entry point: writes caches from sources and opens datasets, on one pool of native threads."""

from __future__ import annotations

import errno
import json
import os
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from dataset_rt import _core, arguments
from dataset_rt.config import ReaderConfig, WriterConfig
from dataset_rt.dataset import CachedDataset
from dataset_rt.exceptions import (
    CacheIOError,
    CachePermissionError,
    DatasetRtError,
    StaleCacheError,
)
from dataset_rt.fingerprints import canonical_json, differences
from dataset_rt.results import (
    CacheSourcesDatasetError,
    CacheSourcesDatasetSuccess,
    CacheWriteError,
    CacheWriteSuccess,
)
from dataset_rt.sources import NamedSource, fingerprint_of, normalize_sources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataset_rt.results import CacheSourcesDatasetResult, CacheWriteResult
    from dataset_rt.sources import CacheSource

_MAX_THREADS = 1024
_Config = TypeVar("_Config", ReaderConfig, WriterConfig)


class DatasetRuntime:
    """Owns the native threads that write and read; make one per program and share it.

    Args:
        num_workers: How many native threads; None takes what the CPU affinity and the cgroup
            quota of the process allow.

    Raises:
        ConfigError: ``num_workers`` is no integer from 1 to 1024.

    Example:
        >>> runtime = DatasetRuntime(num_workers=2)
        >>> runtime.num_workers
        2
    """

    def __init__(self, num_workers: int | None = None) -> None:
        """Take the number of threads; they start when they are first needed."""
        if num_workers is None:
            count = _core.available_parallelism()
        else:
            count = arguments.integer("num_workers", num_workers, minimum=1, maximum=_MAX_THREADS)
        self._pool = _core.ThreadPool(count)

    @property
    def num_workers(self) -> int:
        """How many native threads read and write."""
        return self._pool.num_threads

    def __repr__(self) -> str:
        """Show the number of threads."""
        return f"DatasetRuntime(num_workers={self.num_workers})"

    def write_cache(
        self,
        sources: CacheSource | Iterable[CacheSource],
        path: str | os.PathLike[str],
        *,
        writer_config: WriterConfig | None = None,
    ) -> tuple[CacheWriteResult, ...]:
        """Write one cache per source into the directory ``path``.

        A source whose cache is finished is not iterated again. A source that fails gives a
        CacheWriteError with its traceback, and the others go on; its cache does not exist then.

        Args:
            sources: One source or an iterable of sources.
            path: The directory that holds the caches, one sub-directory per source.
            writer_config: How to write; None takes the defaults.

        Returns:
            One CacheWriteSuccess or CacheWriteError per source, in source order.

        Raises:
            ConfigError: An argument is of the wrong type.
            SourceNameError: A name cannot be a directory, or two collide.
            CacheIOError: The directory cannot be made or written to.

        Example:
            >>> import tempfile
            >>> from dataset_rt import CacheInput, CacheWriteSuccess, DatasetRuntime
            >>> class Squares:
            ...     name = "squares"
            ...
            ...     def __iter__(self):
            ...         for number in range(10):
            ...             yield CacheInput(str(number**2).encode(), {"number": number})
            >>> with tempfile.TemporaryDirectory() as base:
            ...     (result,) = DatasetRuntime(num_workers=1).write_cache(Squares(), base)
            >>> result.source_name, result.path.name
            ('squares', 'squares')
        """
        config = _or_default("writer_config", writer_config, WriterConfig)
        base_path = arguments.path("path", path)
        named_sources = normalize_sources(sources)
        _prepare_base(base_path)
        return tuple(self._write_one(named, base_path, config) for named in named_sources)

    def cached_dataset(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        reader_config: ReaderConfig | None = None,
    ) -> CachedDataset:
        """Open finished caches as one dataset.

        Args:
            paths: The directories of the caches, or one of them. Rows stand in this order.
            reader_config: How to draw and read; None takes the defaults.

        Raises:
            ConfigError: An argument is of the wrong type.
            CacheNotFoundError: A path holds no finished cache.
            CorruptCacheError: A cache is damaged.
            SchemaMismatchError: The caches have different metadata columns, or one identity.

        Example:
            >>> import tempfile
            >>> from dataset_rt import CacheInput, DatasetRuntime, ReaderConfig
            >>> class Squares:
            ...     name = "squares"
            ...
            ...     def __iter__(self):
            ...         for number in range(10):
            ...             yield CacheInput(str(number**2).encode(), {"number": number})
            >>> runtime = DatasetRuntime(num_workers=1)
            >>> with tempfile.TemporaryDirectory() as base:
            ...     (result,) = runtime.write_cache(Squares(), base)
            ...     config = ReaderConfig(shuffle=False)
            ...     with runtime.cached_dataset(result.path, reader_config=config) as dataset:
            ...         print([int(sample.data) for sample in dataset])
            [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
        """
        config = _or_default("reader_config", reader_config, ReaderConfig)
        return CachedDataset._open(  # noqa: SLF001 - the constructor is not for users
            arguments.paths("paths", paths), self._pool, config
        )

    def from_cache_sources(
        self,
        sources: CacheSource | Iterable[CacheSource],
        path: str | os.PathLike[str],
        *,
        reader_config: ReaderConfig | None = None,
        writer_config: WriterConfig | None = None,
    ) -> CacheSourcesDatasetResult:
        """Write what is missing of the caches of all sources, and open them as one dataset.

        Args:
            sources: One source or an iterable of sources; rows stand in this order.
            path: The directory that holds the caches, one sub-directory per source.
            reader_config: How to draw and read; None takes the defaults.
            writer_config: How to write; None takes the defaults.

        Returns:
            CacheSourcesDatasetSuccess, or CacheSourcesDatasetError if a source failed or the
            caches do not fit together.

        Raises:
            ConfigError: An argument is of the wrong type.
            SourceNameError: A name cannot be a directory, or two collide.
            CacheIOError: The directory cannot be made or written to.

        Example:
            >>> import tempfile
            >>> from dataset_rt import CacheInput, CacheSourcesDatasetSuccess, DatasetRuntime
            >>> class Squares:
            ...     name = "squares"
            ...
            ...     def __iter__(self):
            ...         for number in range(10):
            ...             yield CacheInput(str(number**2).encode(), {"number": number})
            >>> with tempfile.TemporaryDirectory() as base:
            ...     match DatasetRuntime(num_workers=1).from_cache_sources(Squares(), base):
            ...         case CacheSourcesDatasetSuccess(dataset=dataset):
            ...             print(len(dataset))
            ...         case failure:
            ...             print(failure.message)
            10
        """
        reader = _or_default("reader_config", reader_config, ReaderConfig)
        results = self.write_cache(sources, path, writer_config=writer_config)
        failures = [result for result in results if isinstance(result, CacheWriteError)]
        if failures:
            messages = "\n".join(failure.message for failure in failures)
            return CacheSourcesDatasetError(
                results,
                f"{len(failures)} of {len(results)} sources failed\n{messages}",
                exception=failures[0].exception,
            )
        paths = [str(result.path) for result in results if isinstance(result, CacheWriteSuccess)]
        try:
            dataset = CachedDataset._open(paths, self._pool, reader)  # noqa: SLF001 - same
        except DatasetRtError as error:
            return CacheSourcesDatasetError(results, str(error), exception=error)
        return CacheSourcesDatasetSuccess(dataset, results)

    def _write_one(
        self, named: NamedSource, base_path: str, config: WriterConfig
    ) -> CacheWriteResult:
        # Only Exception: KeyboardInterrupt and SystemExit end the whole call.
        try:
            fingerprint = fingerprint_of(named.source)
            path = _finished_cache(named, base_path, fingerprint)
        except Exception as error:  # noqa: BLE001 - whatever a source raises is its result
            return _failure(named.name, error)
        if path is None:
            _require_writable(base_path)
        try:
            if path is None:
                path = _build(named, base_path, fingerprint, config)
            if config.validate_cache:
                reader_config = ReaderConfig(validate_cache=True)
                CachedDataset._open([path], self._pool, reader_config).close()  # noqa: SLF001 - same
        except Exception as error:  # noqa: BLE001 - same
            return _failure(named.name, error)
        return CacheWriteSuccess(named.name, Path(path))


def _or_default(name: str, config: object, expected: type[_Config]) -> _Config:
    if config is None:
        return expected()
    arguments.instance(name, config, expected)
    return cast("_Config", config)


def _prepare_base(base_path: str) -> None:
    try:
        Path(base_path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = CachePermissionError if isinstance(error, PermissionError) else CacheIOError
        reason = "is no directory" if isinstance(error, FileExistsError) else error.strerror
        raise kind(
            error.errno, f"cannot make the directory of caches: {reason}", base_path
        ) from error


def _require_writable(base_path: str) -> None:
    # Asked only where something is to be built: finished caches are reused from read-only media.
    if os.access(
        base_path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        return
    raise CachePermissionError(
        errno.EACCES, "cannot write to the directory of caches: permission denied", base_path
    )


def _finished_cache(named: NamedSource, base_path: str, fingerprint: str | None) -> str | None:
    existing = _core.existing_cache(base_path, named.name)
    if existing is None:
        return None
    # Both in one canonical form: the manifest may spell a number in another way.
    cached = (
        None if existing.fingerprint is None else canonical_json(json.loads(existing.fingerprint))
    )
    if fingerprint is None or cached == fingerprint:
        return existing.path
    raise StaleCacheError(
        f"cache {existing.path} was written from another fingerprint than its source has now\n"
        f"{differences(cached, fingerprint)}\n"
        "hint: remove the cache to have it written anew, or give the source another name"
    )


def _build(
    named: NamedSource, base_path: str, fingerprint: str | None, config: WriterConfig
) -> str:
    records = iter(named.source)
    try:
        return _core.build_cache(
            base_path,
            named.name,
            records,
            fingerprint=fingerprint,
            max_shard_bytes=config.max_shard_bytes,
            prefetch_size=config.prefetch_size,
        )
    finally:
        # The traceback of a failure keeps this frame and with it a suspended generator, whose
        # open files would wait until the result is dropped.
        if isinstance(records, Generator):
            records.close()


def _failure(name: str, error: Exception) -> CacheWriteError:
    text = str(error)
    if isinstance(error, DatasetRtError):
        message = text if f'source "{name}"' in text else f"source {name!r}: {text}"
    else:
        reason = f"{type(error).__qualname__}: {text}" if text else type(error).__qualname__
        message = f"source {name!r} raised {reason}{_origin(error)}"
    return CacheWriteError(name, message, exception=error)


def _origin(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename == __file__:
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})"
