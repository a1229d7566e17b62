"""Counts the values of metadata columns, a stretch of rows at a time, within bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_rt.cli.text import json_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dataset_rt.dataset import CachedDataset

_ROWS_AT_A_TIME = 65_536
_SHOWN_BY_DEFAULT = 20
_COUNTED_BY_DEFAULT = 1_000
_COUNTED_IF_ASKED = 1_000_000


class ColumnCounter:
    """What is known of one column after some of its rows.

    Example:
        >>> counter = ColumnCounter("label", "int", max_values=10)
        >>> counter.add(np.array([3, 1, 3]))
        >>> counter.fields(top=1)["counts"], counter.fields(top=1)["values"]
        ([{'value': 3, 'count': 2}], 2)
    """

    def __init__(self, name: str, python_type: str, *, max_values: int) -> None:
        """Begin with no row; more than ``max_values`` different values are not counted."""
        self._name = name
        self._type = python_type
        self._max_values = max_values
        # None once there were too many.
        self._counts: Counter[Any] | None = Counter()
        self._nulls = 0
        self._nans = 0
        self._smallest: Any = None
        self._largest: Any = None

    def add(self, column: npt.NDArray[Any]) -> None:
        """Take more rows, masked where they are null."""
        values = np.asarray(np.ma.compressed(column)) if np.ma.isMA(column) else column
        if self._type == "None":
            values = values[:0]
        self._nulls += len(column) - len(values)
        if self._type == "float":
            is_nan = np.isnan(values)
            self._nans += int(is_nan.sum())
            values = values[~is_nan]
        if len(values) == 0:
            return
        if self._type in ("int", "float"):
            self._take_range(values)
        if self._counts is not None:
            self._counts.update(_counted(values))
            if len(self._counts) > self._max_values:
                self._counts = None

    def fields(self, *, top: int) -> dict[str, Any]:
        """Return the findings, with the ``top`` most frequent values, ties in order of value."""
        fields: dict[str, Any] = {"name": self._name, "type": self._type, "nulls": self._nulls}
        if self._type in ("int", "float"):
            fields["smallest"] = json_value(self._smallest)
            fields["largest"] = json_value(self._largest)
        if self._type == "float":
            fields["nans"] = self._nans
        if self._counts is None:
            return {**fields, "values": None, "more_values_than": self._max_values}
        ordered = sorted(self._counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return {
            **fields,
            "values": len(ordered),
            "counts": [
                {"value": json_value(value), "count": count} for value, count in ordered[:top]
            ],
            "other_count": sum(count for _, count in ordered[top:]),
        }

    def _take_range(self, values: npt.NDArray[Any]) -> None:
        smallest, largest = values.min().item(), values.max().item()
        if self._smallest is None:
            self._smallest, self._largest = smallest, largest
        else:
            self._smallest = min(self._smallest, smallest)
            self._largest = max(self._largest, largest)


def count_columns(
    dataset: CachedDataset, types: dict[str, str], asked: Sequence[str], *, top: int
) -> list[dict[str, Any]]:
    """Count the values of the columns that are asked for, or of all of them.

    Args:
        dataset: One cache, all of it, in table order.
        types: The Python type of every column of the cache.
        asked: Names of columns; without any, only columns with few values get their counts.
        top: How many values to return of each.
    """
    names = list(dict.fromkeys(asked)) or list(types)
    max_values = _COUNTED_IF_ASKED if asked else _COUNTED_BY_DEFAULT
    counters = {name: ColumnCounter(name, types[name], max_values=max_values) for name in names}
    rows = dataset.rows
    for start in range(0, len(rows) if counters else 0, _ROWS_AT_A_TIME):
        columns = rows[start : start + _ROWS_AT_A_TIME].metadata
        for name, counter in counters.items():
            counter.add(columns[name])
    found = [counter.fields(top=top) for counter in counters.values()]
    if not asked:
        for fields in found:
            if fields["type"] == "float" or (fields["values"] or 0) > _SHOWN_BY_DEFAULT:
                fields.pop("counts", None)
                fields.pop("other_count", None)
    return found


def _counted(values: npt.NDArray[Any]) -> dict[Any, int]:
    if values.dtype == object:
        return Counter(values.tolist())
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))
