"""The entry point: writes caches from sources and opens datasets, on one pool of native threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from dataset_rt import _core, arguments
from dataset_rt.building import BuildPlan, failure, prepare_base, reclaim_useless, write_all
from dataset_rt.dataset import CachedDataset
from dataset_rt.exceptions import DatasetRtError
from dataset_rt.maintenance import CacheVerification, Damage
from dataset_rt.progress import WriteProgress, is_shown, verification_bar
from dataset_rt.results import (
    CacheSourcesDatasetError,
    CacheSourcesDatasetSuccess,
    CacheWriteError,
    CacheWriteSuccess,
)
from dataset_rt.sources import normalize_sources
from dataset_rt.writer_profile import check_profile_path, write_profile

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from dataset_rt.config import ReaderConfig, WriterConfig
    from dataset_rt.results import CacheSourcesDatasetResult, CacheWriteResult
    from dataset_rt.sources import CacheSource

_MAX_THREADS = 1024


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

        Several processes may ask for one cache at once: one of them builds it, the others wait
        and take it. What interrupted builds left in ``path`` is continued where the source has
        ``iter_from``, and removed otherwise.

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
        config = _writer_config(writer_config)
        base_path = arguments.path("path", path)
        named_sources = normalize_sources(sources)
        if config.profiler.enabled and config.profiler.path is not None:
            check_profile_path(config.profiler.path)
        prepare_base(base_path)
        with WriteProgress(config.show_progress, named_sources) as progress:
            if config.num_processes == 0:
                plan = BuildPlan(base_path, config, self.num_workers)
                outcomes = write_all(plan, named_sources, progress)
            else:
                # multiprocessing is slow to import, and rarely needed
                from dataset_rt import builder_processes  # noqa: PLC0415

                outcomes = builder_processes.write_in_processes(
                    base_path, config, self.num_workers, named_sources, progress
                )
        reclaim_useless(base_path)
        results = tuple(outcome.result for outcome in outcomes)
        if config.validate_cache:
            results = tuple(self._validate(result) for result in results)
        if config.profiler.enabled and config.profiler.path is not None:
            write_profile(config.profiler.path, outcomes)
        return results

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
        config = _reader_config(reader_config)
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
        reader = _reader_config(reader_config)
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

    def verify_cache(
        self,
        path: str | os.PathLike[str],
        *,
        show_progress: bool | Literal["auto"] = "auto",
    ) -> CacheVerification:
        """Read all of a cache and compare it with what was written.

        Every file is compared with its digest, and every sample is found, checked and, where it
        is compressed, decompressed, on all threads of the runtime.

        Args:
            path: The directory of one cache.
            show_progress: Show a bar on standard error: ``"auto"`` in a terminal or notebook only.

        Returns:
            What was read, and everything that is not as it was written.

        Raises:
            ConfigError: An argument is of the wrong type.
            CacheNotFoundError: The path holds no finished cache.
            CorruptCacheError: The cache cannot be opened at all: its manifest is damaged, or a
                file is missing or has another length.

        Example:
            >>> import tempfile
            >>> from dataset_rt import CacheInput, DatasetRuntime
            >>> class Squares:
            ...     name = "squares"
            ...
            ...     def __iter__(self):
            ...         for number in range(10):
            ...             yield CacheInput(str(number**2).encode(), {"number": number})
            >>> runtime = DatasetRuntime(num_workers=1)
            >>> with tempfile.TemporaryDirectory() as base:
            ...     (result,) = runtime.write_cache(Squares(), base)
            ...     found = runtime.verify_cache(result.path)
            >>> found.samples, found.is_intact
            (10, True)
        """
        cache_path = arguments.path("path", path)
        shows = is_shown(arguments.flag_or_auto("show_progress", show_progress))
        with verification_bar(shows, Path(cache_path).name) as report:
            found = _core.verify_cache(cache_path, self._pool, progress=report)
        damages = tuple(Damage(sample, message) for sample, message in found.damages)
        return CacheVerification(found.name, Path(cache_path), found.samples, found.bytes, damages)

    def _validate(self, result: CacheWriteResult) -> CacheWriteResult:
        if not isinstance(result, CacheWriteSuccess):
            return result
        try:
            checking = _reader_config(None).model_copy(update={"validate_cache": True})
            CachedDataset._open([str(result.path)], self._pool, checking).close()  # noqa: SLF001 - same
        except Exception as error:  # noqa: BLE001 - whatever is wrong is the result
            return failure(result.source_name, error)
        return result


# The configurations are imported when they are needed, as pydantic is slow to import.


def _reader_config(given: object) -> ReaderConfig:
    from dataset_rt.config import ReaderConfig  # noqa: PLC0415 - as above

    config = ReaderConfig() if given is None else given
    arguments.instance("reader_config", config, ReaderConfig)
    return cast("ReaderConfig", config)


def _writer_config(given: object) -> WriterConfig:
    from dataset_rt.config import WriterConfig  # noqa: PLC0415 - as above

    config = WriterConfig() if given is None else given
    arguments.instance("writer_config", config, WriterConfig)
    return cast("WriterConfig", config)
