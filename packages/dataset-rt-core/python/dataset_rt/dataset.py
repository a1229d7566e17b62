"""A dataset over caches: what is drawn, in which order, and the samples themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from dataset_rt import _core, arguments, dataset_file, state
from dataset_rt.batch import BatchIterator
from dataset_rt.exceptions import (
    ConfigError,
    DatasetClosedError,
    DatasetRtError,
    MetadataTableError,
    StateMismatchError,
)
from dataset_rt.records import CacheInfo
from dataset_rt.rows import DatasetRows
from dataset_rt.tables import arrow_table
from dataset_rt.torch_adapters import TorchAdapters
from dataset_rt.weights import weights_as_array

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

    import numpy.typing as npt
    import polars as pl

    from dataset_rt.config import ReaderConfig
    from dataset_rt.records import CachedSample
    from dataset_rt.runtime import DatasetRuntime
    from dataset_rt.tables import ArrowTable
    from dataset_rt.weights import WeightsLike

_MAX_BATCH_SIZE = 2**31 - 1


class CachedDataset(TorchAdapters):
    """Samples of one or more caches, drawn from an endless stream.

    A draw is a pure function of seed, active table and position, so the dataset holds no other
    sampling state than one cursor: where the next iterator begins. ``DatasetRuntime`` makes
    datasets; they need no ``close()``, though it exists.

    Example:
        >>> import tempfile
        >>> from dataset_rt import CacheInput, DatasetRuntime, ReaderConfig
        >>> class Squares:
        ...     name = "squares"
        ...
        ...     def __iter__(self):
        ...         for number in range(4):
        ...             yield CacheInput(str(number**2).encode(), {"number": number})
        >>> runtime = DatasetRuntime(num_workers=1)
        >>> with tempfile.TemporaryDirectory() as base:
        ...     (result,) = runtime.write_cache(Squares(), base)
        ...     dataset = runtime.cached_dataset(
        ...         result.path, reader_config=ReaderConfig(shuffle=False)
        ...     )
        ...     dataset.set_weights([0, 0, 1, 1])
        ...     print([sample.metadata["number"] for sample in dataset])
        [2, 3, 2, 3]
    """

    def __init__(self, native: _core.Dataset, reader_config: ReaderConfig) -> None:
        """Wrap a native dataset; not for users, who call ``DatasetRuntime.cached_dataset``."""
        self._native = native
        self._reader_config = reader_config

    @classmethod
    def _open(
        cls, paths: Sequence[str], pool: _core.ThreadPool, reader_config: ReaderConfig
    ) -> CachedDataset:
        options = reader_config.model_dump()
        return cls(_core.Dataset.open(paths, pool, **options), reader_config)

    # Reading

    def __iter__(self) -> _core.SampleIterator:
        """Return an iterator over one epoch of samples.

        It takes the next ``len(dataset)`` draws of the stream and moves the cursor past them at
        once, so that the next iterator continues there. It keeps the table as it is now, and
        reads ahead within ``prefetch_size``.
        """
        return iter(self._native)

    def __len__(self) -> int:
        """Return the number of draws in one epoch."""
        self._require_open()
        return self._native.epoch_len

    def set_epoch_len(self, epoch_len: int) -> None:
        """Set the number of draws in one epoch; the cursor stays where it is.

        Raises:
            ConfigError: ``epoch_len`` is no positive integer.
        """
        self._require_open()
        self._native.set_epoch_len(arguments.integer("epoch_len", epoch_len, minimum=1))

    def get_item(self, cache_id: SupportsIndex, sample_id: SupportsIndex) -> CachedSample:
        """Return one sample by its identity, whether or not it is in the active table.

        Raises:
            ConfigError: An argument is no integer.
            SampleNotFoundError: There is no such sample; it is a KeyError.
        """
        return self._native.sample_of_id(cache_id, sample_id)

    def get_items(
        self, ids: Iterable[tuple[int, int]] | npt.NDArray[np.int64]
    ) -> list[CachedSample]:
        """Return samples by their identities, in the order in which they are asked for.

        Args:
            ids: Pairs of cache id and sample id, or an integer array of shape (n, 2).

        Raises:
            SampleNotFoundError: There is no such sample; it is a KeyError.
        """
        cache_ids, sample_ids = _identities(ids)
        return self._native.samples_of_ids(cache_ids, sample_ids)

    def iter_batches(self, batch_size: int) -> BatchIterator:
        """Return an iterator over one epoch in batches, the last of which may be shorter.

        It moves the cursor as ``iter(dataset)`` does.

        Raises:
            ConfigError: ``batch_size`` is no positive integer.
        """
        size = arguments.integer("batch_size", batch_size, minimum=1, maximum=_MAX_BATCH_SIZE)
        return BatchIterator(self._native.iter_batches(size))

    @property
    def rows(self) -> DatasetRows:
        """The active rows as a sequence, in table order."""
        return DatasetRows(self._native)

    def draws(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the active rows that the stream draws at positions ``start`` to ``stop - 1``.

        Positions are absolute: what was read before does not matter.

        Raises:
            ConfigError: A position is negative, or ``stop`` is below ``start``.
        """
        first = arguments.integer("start", start, minimum=0)
        last = arguments.integer("stop", stop, minimum=0)
        if last < first:
            raise ConfigError(f"stop is {last}, expected at least start, which is {first}")
        return self._native.draws(first, last)

    @property
    def caches(self) -> tuple[CacheInfo, ...]:
        """The caches, in the order of their rows."""
        return tuple(
            CacheInfo(id=cache_id, name=name, path=Path(path), samples=samples)
            for cache_id, name, path, samples in self._native.caches
        )

    @property
    def reader_config(self) -> ReaderConfig:
        """The options that the dataset was opened with."""
        return self._reader_config

    # The active table

    def get_metadata(self) -> pl.DataFrame:
        """Return the active table as a Polars frame.

        Its columns are ``cache_id``, ``sample_id``, the stored ones in the order of the source,
        ``weight``, and those that the user added.

        Raises:
            CorruptCacheError: The stored metadata is damaged.
        """
        table = self._native.metadata_table()
        # Polars takes long to import, and is only needed here.
        from dataset_rt.metadata import frame_of_table  # noqa: PLC0415

        return frame_of_table(table)

    def update_metadata(self, table: ArrowTable) -> None:
        """Make a table the active one: which rows are drawn, how often, and in which order.

        Rows that are missing leave the population, rows that repeat repeat in it, and order
        matters where ``shuffle`` is False. The epoch length becomes the number of rows, and the
        stream starts anew. Iterators that exist keep the table they began with.

        Args:
            table: A frame from ``get_metadata``, filtered, repeated, sorted or with changed
                weights and added columns; anything with ``__arrow_c_stream__``.

        Raises:
            MetadataTableError: A column is missing or has a wrong type, a row is unknown, or
                there is no row. The active table stays as it was.
            WeightError: A weight is not accepted. The active table stays as it was.
        """
        given, null_columns = arrow_table(table)
        try:
            self._native.update_metadata(given, null_columns)
        except DatasetRtError:
            raise
        except (TypeError, ValueError) as error:
            # What the library that gave the stream, or the reader of it, says about its columns.
            raise MetadataTableError(f"table cannot be read as an Arrow stream: {error}") from error

    def set_weights(self, weights: WeightsLike) -> None:
        """Set the weight of every active row; the stream starts anew.

        Args:
            weights: One number per active row, in table order. A row is drawn in proportion to
                its weight, and never where it is 0.

        Raises:
            WeightError: The weights are no real numbers, not one per row, negative, not finite
                or all zero. The old weights stay.
        """
        self._native.set_weights(weights_as_array(weights, self._native.num_rows))

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return where the next iterator begins, in plain Python types."""
        return state.state_of(self._native, self._reader_config)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where ``state_dict`` was taken, on a dataset with the same table and config.

        Raises:
            StateMismatchError: The state is of another table, seed, order or version; the
                message lists the differences. The cursor stays where it was.
        """
        self._native.set_cursor(state.position_in(state_dict, self._native, self._reader_config))

    def dump_config(self, path: str | os.PathLike[str]) -> Path:
        """Write down what this dataset consists of, for ``from_config`` to open it again.

        Args:
            path: A JSON file to write, or a directory, which gets ``dataset.json``. A table that
                was edited is written next to it. Cache paths are stored relative to the file.

        Returns:
            The absolute path of the JSON file.

        Raises:
            CacheIOError: A file cannot be written.
        """
        self._require_open()
        target = dataset_file.file_path(arguments.path("path", path))
        description = dataset_file.DatasetDescription(
            reader_config=self._reader_config,
            epoch_len=len(self),
            caches=self.caches,
            fingerprint=self._native.fingerprint,
        )
        write_table = self._write_table if self._native.table_is_edited else None
        dataset_file.write_description(target, description, write_table)
        return target

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        cache_paths: Iterable[str | os.PathLike[str]] | None = None,
        runtime: DatasetRuntime | None = None,
    ) -> CachedDataset:
        """Open the dataset that ``dump_config`` wrote down, at the start of its stream.

        Args:
            path: The JSON file, or the directory that holds ``dataset.json``.
            cache_paths: Where the caches are now, in their order; None takes the stored paths.
            runtime: Whose threads read; None makes a runtime of its own.

        Raises:
            CacheIOError: The file cannot be read.
            ConfigError: The file is not one that ``dump_config`` wrote.
            CacheNotFoundError: A cache is not where it was.
            StateMismatchError: The caches are not those that were written down.
        """
        from dataset_rt.runtime import DatasetRuntime  # noqa: PLC0415 - which imports this module

        source = dataset_file.file_path(arguments.path("path", path))
        description = dataset_file.read_description(source)
        if cache_paths is None:
            paths = [str(cache.path) for cache in description.caches]
        else:
            paths = arguments.paths("cache_paths", cache_paths)
        if runtime is None:
            runtime = DatasetRuntime()
        arguments.instance("runtime", runtime, DatasetRuntime)
        dataset = runtime.cached_dataset(paths, reader_config=description.reader_config)
        dataset._restore(source, description)  # noqa: SLF001 - another instance of this class
        return dataset

    def _write_table(self, path: Path) -> None:
        from dataset_rt.metadata import write_table  # noqa: PLC0415 - Polars takes long to import

        write_table(self.get_metadata(), path)

    def _restore(self, source: Path, description: dataset_file.DatasetDescription) -> None:
        """Set the table and epoch length of a description, whose caches must be these."""
        found = state.cache_differences(
            "the file",
            [(cache.id, cache.name, cache.samples) for cache in description.caches],
            [(cache.id, cache.name, cache.samples) for cache in self.caches],
        )
        if not found:
            if description.table_path is not None:
                from dataset_rt.metadata import frame_of_file  # noqa: PLC0415 - as above

                content = dataset_file.read_table(description.table_path)
                self.update_metadata(frame_of_file(content))
            if self._native.fingerprint != description.fingerprint:
                found = ["caches or table: other content"]
        if found:
            listed = "\n".join(f"- {difference}" for difference in found)
            raise StateMismatchError(
                f"{source} describes another dataset than its caches\n{listed}"
            )
        self.set_epoch_len(description.epoch_len)

    # Life

    def close(self) -> None:
        """Let go of files and maps; every later call raises DatasetClosedError.

        Iterators, batches and views that exist keep what they read from.
        """
        self._native.close()

    def __enter__(self) -> Self:
        """Return the dataset itself."""
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the dataset."""
        self.close()

    def __repr__(self) -> str:
        """Show what is drawn from and how."""
        if self._native.closed:
            return "CachedDataset(closed)"
        caches = ", ".join(repr(name) for _, name, _, _ in self._native.caches)
        return (
            f"CachedDataset(caches=[{caches}], rows={self._native.num_rows}, "
            f"epoch_len={len(self)}, seed={self._reader_config.seed}, "
            f"order={state.order_of(self._reader_config)!r})"
        )

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a copy would read the caches by another process's files."""
        raise TypeError(
            "a CachedDataset cannot be pickled or copied\n"
            "hint: write it down with dump_config and open it with CachedDataset.from_config"
        )

    def _require_open(self) -> None:
        if self._native.closed:
            raise DatasetClosedError("the dataset is closed")


def _identities(ids: object) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    expected = "expected pairs of cache id and sample id, or an integer array of shape (n, 2)"
    if isinstance(ids, str | bytes | dict) or not hasattr(ids, "__iter__"):
        raise ConfigError(f"ids is {arguments.shown(ids)}, {expected}")
    pairs = ids if hasattr(ids, "__array__") else list(ids)
    try:
        array = np.asarray(pairs)
    except ValueError as error:
        raise ConfigError(f"ids cannot become an array ({error}), {expected}") from error
    if array.ndim == 1 and len(array) == 0:
        array = np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:  # noqa: PLR2004 - cache id and sample id
        raise ConfigError(f"ids has shape {array.shape}, {expected}")
    if array.dtype.kind not in "iu" or (array > arguments.MAX_INT64).any():
        raise ConfigError(f"ids has values of type {array.dtype} or out of range, {expected}")
    return (
        np.ascontiguousarray(array[:, 0], dtype=np.int64),
        np.ascontiguousarray(array[:, 1], dtype=np.int64),
    )
