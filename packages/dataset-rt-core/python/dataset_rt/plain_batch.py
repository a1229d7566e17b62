"""A batch in plain arrays: what a CachedBatch becomes when it crosses to another process."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataset_rt.records import CachedSample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dataset_rt import _core


@dataclass(frozen=True, slots=True, eq=False)
class PlainBatch:
    """The arrays of a batch, with the methods of a native one."""

    buffer: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    cache_ids: npt.NDArray[np.int64]
    sample_ids: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    is_padding: npt.NDArray[np.bool_]
    table: PlainTable

    @classmethod
    def of(cls, batch: _core.Batch | PlainBatch) -> PlainBatch:
        """Return the batch itself if it is plain, else its arrays."""
        if isinstance(batch, PlainBatch):
            return batch
        return cls(
            buffer=batch.buffer,
            offsets=batch.offsets,
            cache_ids=batch.cache_ids,
            sample_ids=batch.sample_ids,
            rows=batch.rows,
            positions=batch.positions,
            is_padding=batch.is_padding,
            table=PlainTable.of(batch.metadata_table()),
        )

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.cache_ids)

    def data(self) -> list[bytes]:
        """Return the payloads as bytes."""
        return [bytes(view) for view in self.views()]

    def views(self) -> list[memoryview]:
        """Return the payloads as read-only views of the buffer."""
        whole = self.buffer.data.toreadonly()
        bounds = self.offsets.tolist()
        return [whole[start:stop] for start, stop in itertools.pairwise(bounds)]

    def samples(self) -> list[CachedSample]:
        """Return the samples with their metadata as dicts."""
        names = self.table.column_names
        columns = [self.table.as_list(name) for name in names]
        rows = zip(*columns, strict=True) if columns else [()] * len(self)
        return [
            CachedSample(data, dict(zip(names, values, strict=True)), cache_id, sample_id)
            for data, values, cache_id, sample_id in zip(
                self.data(), rows, self.cache_ids.tolist(), self.sample_ids.tolist(), strict=True
            )
        ]

    def metadata_table(self) -> PlainTable:
        """Return the metadata columns."""
        return self.table


@dataclass(frozen=True, slots=True, eq=False)
class PlainTable:
    """Metadata columns as NumPy arrays, each with a mask that is True at nulls, or None."""

    columns: dict[str, tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]]

    @classmethod
    def of(cls, table: _core.MetadataTable) -> PlainTable:
        """Take the arrays of a native table."""
        return cls({name: table.column(name) for name in table.column_names})

    @property
    def column_names(self) -> list[str]:
        """The column names in the order of the source."""
        return list(self.columns)

    def column(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Return the values of one column, and where they are null."""
        return self.columns[name]

    def as_list(self, name: str) -> list[Any]:
        """Return one column as Python values, None for nulls."""
        values, is_null = self.columns[name]
        found: list[Any] = values.tolist()
        if is_null is None:
            return found
        return [
            None if null else value for value, null in zip(found, is_null.tolist(), strict=True)
        ]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the columns as an Arrow stream."""
        # Polars takes long to import, and loading workers must never do so.
        from dataset_rt.metadata import frame_of_columns  # noqa: PLC0415

        return frame_of_columns(self).__arrow_c_stream__(requested_schema)
