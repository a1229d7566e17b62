"""The active rows of a dataset as a sequence, for people who choose rows themselves."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dataset_rt import arguments
from dataset_rt.batch import CachedBatch
from dataset_rt.exceptions import ConfigError, PositionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from dataset_rt import _core
    from dataset_rt.records import CachedSample


class DatasetRows:
    """The active table as a sequence of samples; it follows later edits of the dataset.

    ``rows[i]`` gives a CachedSample, ``rows[slice or array]`` a CachedBatch. Negative numbers
    count from the end, and a bool array chooses the rows where it is True.

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
        ...     rows = runtime.cached_dataset(result.path).rows
        ...     len(rows), rows[-1].data, rows[2:4].data
        (10, b'81', [b'4', b'9'])
    """

    __slots__ = ("_native",)

    def __init__(self, native: _core.Dataset) -> None:
        """Look at the active table of a native dataset."""
        self._native = native

    def __len__(self) -> int:
        """Return the number of active rows."""
        return self._native.num_rows

    def __iter__(self) -> Iterator[CachedSample]:
        """Yield the samples in table order."""
        for row in range(len(self)):
            yield self._native.sample_of_row(row)

    def __repr__(self) -> str:
        """Show the number of rows."""
        return f"DatasetRows({len(self)} rows)"

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> CachedSample: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | npt.NDArray[Any]) -> CachedBatch: ...

    def __getitem__(self, index: object) -> CachedSample | CachedBatch:
        """Return one sample, or the batch of several rows in the order they are asked for.

        Raises:
            PositionError: A row number is out of range; it is an IndexError.
            ConfigError: The index is neither a number, a slice nor an array of row numbers.
        """
        num_rows = self._native.num_rows
        if type(index) is int and -num_rows <= index < num_rows:
            return self._native.sample_of_row(index)
        if isinstance(index, slice):
            return self._slice(index, num_rows)
        row = _single_row(index)
        if row is not None:
            if not -num_rows <= row < num_rows:
                raise _outside(row, num_rows)
            return self._native.sample_of_row(row)
        return CachedBatch(self._native.batch_of_rows(row_numbers(index, num_rows)))

    def _slice(self, index: slice, num_rows: int) -> CachedBatch:
        while True:
            # indices() clips, so every number is in range.
            numbers = np.arange(*index.indices(num_rows), dtype=np.int64)
            try:
                return CachedBatch(self._native.batch_of_rows(numbers))
            except PositionError:
                # Unless another thread has put a shorter table in the place of this one.
                if self._native.num_rows == num_rows:
                    raise
                num_rows = self._native.num_rows


def _outside(row: int, num_rows: int) -> PositionError:
    return PositionError(f"row {row} is out of range, expected {-num_rows} to {num_rows - 1}")


def _single_row(index: object) -> int | None:
    # A tensor of one element is an array of rows, though it converts to a number.
    if isinstance(index, bool | np.bool_) or getattr(index, "ndim", 0) != 0:
        return None
    try:
        return operator.index(index)  # type: ignore[arg-type]
    except TypeError:
        return None


def row_numbers(index: object, num_rows: int) -> npt.NDArray[np.int64]:
    """Return what indexes rows as an array of row numbers; negative ones count from the end.

    Raises:
        PositionError: A row number is out of range, or a bool array has another length.
        ConfigError: The index is no one-dimensional array of integers or bools.
    """
    expected = "expected a row number, a slice, or a one-dimensional array of row numbers or bools"
    if index is None or isinstance(index, str | bytes | tuple | dict | bool | np.bool_):
        raise ConfigError(f"row index is {arguments.shown(index)}, {expected}")
    try:
        array = np.asarray(index)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"row index is {arguments.shown(index)}, {expected}") from error
    if array.ndim != 1:
        raise ConfigError(f"row index has shape {array.shape}, {expected}")
    if array.dtype.kind == "b":
        if len(array) != num_rows:
            raise PositionError(
                f"row index is a bool array of length {len(array)}, expected {num_rows}"
            )
        return np.flatnonzero(array).astype(np.int64, copy=False)
    if len(array) == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise ConfigError(f"row index has type {array.dtype}, {expected}")
    outside = (array < -num_rows) | (array >= num_rows)
    if outside.any():
        raise _outside(int(array[int(np.argmax(outside))]), num_rows)
    return np.ascontiguousarray(array, dtype=np.int64)
