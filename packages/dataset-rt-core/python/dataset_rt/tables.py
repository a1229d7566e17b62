"""What ``update_metadata`` accepts: anything that gives an Arrow stream."""

from __future__ import annotations

import sys
from typing import Any, Protocol, cast, runtime_checkable

from dataset_rt import arguments
from dataset_rt.exceptions import MetadataTableError


@runtime_checkable
class ArrowTable(Protocol):
    """Any table of the Arrow world: Polars, pandas, pyarrow, DuckDB and others.

    Example:
        >>> import polars
        >>> isinstance(polars.DataFrame({"label": [1, 2]}), ArrowTable)
        True
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule that holds an ArrowArrayStream."""


def arrow_table(table: object) -> tuple[ArrowTable, list[str]]:
    """Return the table as the native side can read it, and the columns that are really all null.

    Those come as another type: Polars exports a column of type Null with one buffer, for the sake
    of old readers, where Arrow's specification allows none, and the native side refuses it.

    Raises:
        MetadataTableError: The object gives no Arrow stream.
    """
    expected = "expected a table with __arrow_c_stream__, such as a Polars or pandas DataFrame"
    if isinstance(table, type) or not isinstance(table, ArrowTable):
        hint = "\nhint: call .collect() first" if hasattr(table, "collect") else ""
        raise MetadataTableError(f"table is {arguments.type_name(table)}, {expected}{hint}")
    table = _without_row_labels(table)
    null_columns = _null_columns(table)
    if null_columns:
        polars = sys.modules["polars"]
        frame: Any = table
        table = frame.with_columns(polars.col(null_columns).cast(polars.Boolean))
    return cast("ArrowTable", table), null_columns


def _without_row_labels(table: ArrowTable) -> ArrowTable:
    # pandas keeps the labels of filtered rows as an index, and exports an unnamed one as a column
    # of its own, which would then stand in the metadata for ever.
    frame: Any = table
    if _is_frame_of("pandas", frame) and frame.index.nlevels == 1 and frame.index.name is None:
        return cast("ArrowTable", frame.reset_index(drop=True))
    return table


def _null_columns(table: ArrowTable) -> list[str]:
    frame: Any = table
    if not _is_frame_of("polars", frame):
        return []
    null = sys.modules["polars"].Null
    return [name for name, dtype in frame.schema.items() if dtype == null]


def _is_frame_of(library: str, table: object) -> bool:
    # Whoever holds a frame has imported its library: there is no need to import it here.
    module = sys.modules.get(library)
    return module is not None and isinstance(table, module.DataFrame)
