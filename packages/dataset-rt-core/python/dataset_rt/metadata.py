"""Metadata tables between the native side and Polars; the one module that imports Polars.

It is imported where a table is asked for: Polars takes long to import, and its threads do not
survive a fork, so loading workers must never do so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path

    from dataset_rt import _core
    from dataset_rt.plain_batch import PlainTable


def frame_of_table(table: _core.MetadataTable) -> pl.DataFrame:
    """Return a native table as a Polars frame, without a copy where Arrow allows it."""
    return pl.DataFrame(table)


def frame_of_columns(table: PlainTable) -> pl.DataFrame:
    """Return the columns of a batch that crossed processes as a Polars frame."""
    return pl.DataFrame(
        [
            pl.Series(
                name,
                table.as_list(name),
                dtype=_POLARS_TYPES[table.columns[name][0].dtype.kind],
            )
            for name in table.column_names
        ]
    )


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame as an Arrow IPC file."""
    frame.write_ipc(path)


def frame_of_file(content: bytes) -> pl.DataFrame:
    """Return the frame in the bytes of an Arrow IPC file."""
    return pl.read_ipc(content)


_POLARS_TYPES: dict[str, pl.DataType] = {
    "b": pl.Boolean(),
    "i": pl.Int64(),
    "f": pl.Float64(),
    "O": pl.String(),
}
