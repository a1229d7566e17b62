"""Many samples at once: one buffer of payloads, and columns instead of dicts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_rt import arguments
from dataset_rt.arrays import stack_payloads, stacked
from dataset_rt.plain_batch import PlainBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from dataset_rt import _core
    from dataset_rt.plain_batch import PlainTable
    from dataset_rt.records import CachedSample


_MAX_AXIS = 63


class CachedBatch:
    """The samples of consecutive draws, or of chosen rows, gathered in one native call.

    No Python object exists per record until one is asked for. A batch pickles as plain arrays.

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
        ...     dataset = runtime.cached_dataset(
        ...         result.path, reader_config=ReaderConfig(shuffle=False)
        ...     )
        ...     first, *rest = dataset.iter_batches(4)
        >>> first.data, first.offsets.tolist(), first.metadata["number"].tolist()
        ([b'0', b'1', b'4', b'9'], [0, 1, 2, 3, 4], [0, 1, 2, 3])
        >>> [len(batch) for batch in rest]
        [4, 2]
    """

    def __init__(self, source: _core.Batch | PlainBatch) -> None:
        """Wrap a native batch, or one that came from another process."""
        self._source = source

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._source)

    def __repr__(self) -> str:
        """Show the number of samples and bytes and the columns."""
        columns = ", ".join(self.metadata)
        return f"CachedBatch({len(self)} samples, {len(self.buffer)} bytes, columns: {columns})"

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """All payloads back to back."""
        return self._source.buffer

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where payload ``i`` lies in the buffer: from ``offsets[i]`` to ``offsets[i + 1]``."""
        return self._source.offsets

    @cached_property
    def data(self) -> list[bytes]:
        """The payloads as bytes, made when they are first asked for."""
        return self._source.data()

    @cached_property
    def views(self) -> list[memoryview]:
        """The payloads as read-only memoryviews, without a copy."""
        return self._source.views()

    @cached_property
    def samples(self) -> list[CachedSample]:
        """The same as CachedSample objects, made when they are first asked for."""
        return self._source.samples()

    @cached_property
    def metadata(self) -> MetadataColumns:
        """The stored columns by name, each a NumPy array that is made when it is asked for.

        A column with nulls in this batch is a masked array.
        """
        return MetadataColumns(self._source.metadata_table())

    def arrays(self, *, pad_axis: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """Stack the arrays in the payloads, which ``pack_arrays`` made, into one array per name.

        Native threads copy from the files straight into the result, without the GIL and without
        a Python object per sample.

        Args:
            pad_axis: An axis of the packed arrays, from 0, along which they may differ in length;
                zeros fill up the shorter ones. Each name that was filled up has an entry
                ``"<name>_lengths"`` beside it: int64, shape (samples,).

        Returns:
            Names to arrays of shape (samples, *shape of one) in the order of the first payload.

        Raises:
            ConfigError: ``pad_axis`` is no axis.
            InvalidRecordError: A payload is not that of ``pack_arrays``, or its arrays differ from
                those of the first in name, type or shape.
            CorruptCacheError: A payload is damaged.

        Example:
            >>> import tempfile
            >>> import numpy as np
            >>> from dataset_rt import CacheInput, DatasetRuntime, ReaderConfig, pack_arrays
            >>> class Images:
            ...     name = "images"
            ...
            ...     def __iter__(self):
            ...         for label in range(4):
            ...             image = np.full((2, 3), label, dtype=np.uint8)
            ...             yield CacheInput(pack_arrays({"image": image, "label": label}), {})
            >>> runtime = DatasetRuntime(num_workers=1)
            >>> with tempfile.TemporaryDirectory() as base:
            ...     (result,) = runtime.write_cache(Images(), base)
            ...     dataset = runtime.cached_dataset(
            ...         result.path, reader_config=ReaderConfig(shuffle=False)
            ...     )
            ...     arrays = dataset.rows[:].arrays()
            >>> arrays["image"].shape, arrays["label"].tolist()
            ((4, 2, 3), [0, 1, 2, 3])
        """
        if pad_axis is not None:
            pad_axis = arguments.integer("pad_axis", pad_axis, minimum=0, maximum=_MAX_AXIS)
        if isinstance(self._source, PlainBatch):
            return stack_payloads(self._source.views(), pad_axis)
        return stacked(self._source, pad_axis)

    @property
    def cache_ids(self) -> npt.NDArray[np.int64]:
        """The cache of each sample."""
        return self._source.cache_ids

    @property
    def sample_ids(self) -> npt.NDArray[np.int64]:
        """The number of each sample in its cache."""
        return self._source.sample_ids

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The active row of each sample, which joins it to the columns of an edited table."""
        return self._source.rows

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The stream position of each draw; -1 for rows that were chosen by number."""
        return self._source.positions

    @property
    def is_padding(self) -> npt.NDArray[np.bool_]:
        """Which samples only fill up the last batch of an epoch that several ranks share."""
        return self._source.is_padding

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the metadata columns as an Arrow stream: ``polars.DataFrame(batch)`` works."""
        return self._source.metadata_table().__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[type[CachedBatch], tuple[PlainBatch]]:
        """Pickle as plain arrays: a native batch lives in its own process."""
        return CachedBatch, (PlainBatch.of(self._source),)


class MetadataColumns(Mapping[str, "npt.NDArray[Any]"]):
    """The metadata of a batch: column names to arrays, each made when it is first asked for.

    Example:
        >>> import numpy as np
        >>> from dataset_rt.plain_batch import PlainTable
        >>> columns = MetadataColumns(PlainTable({"label": (np.array([3, 1]), None)}))
        >>> list(columns), columns["label"].tolist()
        (['label'], [3, 1])
    """

    def __init__(self, table: _core.MetadataTable | PlainTable) -> None:
        """Look at the columns of a table."""
        self._table = table
        self._names = tuple(table.column_names)
        self._columns: dict[str, npt.NDArray[Any]] = {}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return one column; it is a masked array where it holds nulls."""
        if name not in self._columns:
            if name not in self._names:
                raise KeyError(name)
            values, is_null = self._table.column(name)
            self._columns[name] = (
                values if is_null is None else np.ma.MaskedArray(values, mask=is_null)
            )
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the column names in the order of the source."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._names)

    def __repr__(self) -> str:
        """Show the column names."""
        return f"MetadataColumns({', '.join(self._names)})"


class BatchIterator:
    """One epoch in batches; it keeps the table and the epoch length of its start."""

    def __init__(self, native: _core.BatchIterator) -> None:
        """Wrap the native iterator."""
        self._native = native

    def __iter__(self) -> BatchIterator:
        """Return itself."""
        return self

    def __next__(self) -> CachedBatch:
        """Return the next batch; the last one may be shorter."""
        return CachedBatch(next(self._native))

    @property
    def position(self) -> int:
        """The stream position of the next draw."""
        return self._native.position
