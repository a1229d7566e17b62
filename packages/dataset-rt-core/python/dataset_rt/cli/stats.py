"""``dataset-rt stats``: payload sizes, compression and class counts, without reading payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataset_rt import _core, arguments
from dataset_rt.cli.columns import count_columns
from dataset_rt.cli.failures import SUCCESS, CommandError
from dataset_rt.cli.info import cache_fields, compression_text, stored_text
from dataset_rt.cli.places import absolute, open_cache
from dataset_rt.cli.terminal import Bar
from dataset_rt.cli.text import amount, binary_size, literal, printable, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataset_rt.cli.terminal import Terminal


def run(terminal: Terminal, path: str, columns: Sequence[str], top: int, *, as_json: bool) -> int:
    """Count the sizes in the index and the values in the metadata."""
    arguments.integer("--top", top, minimum=1)
    dataset, manifest = open_cache(path)
    with dataset:
        entry = cache_fields(path, manifest)
        types = {column["name"]: column["type"] for column in entry.pop("columns")}
        for name in columns:
            if name not in types:
                raise CommandError(f"{path} has no column {name}\nhint: {_column_hint(types)}")
        sizes = _core.payload_sizes(absolute(path))
        document = {
            **entry,
            "payload_sizes": _size_fields(sizes, entry),
            "columns": count_columns(dataset, types, columns, top=top),
        }
    if as_json:
        terminal.write_json(document)
    else:
        _show(terminal, document)
    return SUCCESS


def _column_hint(types: dict[str, str]) -> str:
    return f"its columns are {', '.join(types)}" if types else "it has no columns"


def _size_fields(sizes: _core.PayloadSizes, entry: dict[str, Any]) -> dict[str, Any]:
    first = next(power for power, count in enumerate(sizes.counts) if count > 0)
    return {
        "smallest_bytes": sizes.smallest_bytes,
        "largest_bytes": sizes.largest_bytes,
        "mean_bytes": entry["payload_bytes"] / entry["samples"],
        "stored_as_is": sizes.stored_as_is,
        "histogram": [
            {"from_bytes": 2 ** (power - 1) if power > 0 else 0, "count": count}
            for power, count in enumerate(sizes.counts)
            if power >= first
        ],
    }


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    sizes = document["payload_sizes"]
    compression = compression_text(document)
    if document["compression"] != "none":
        compression = f"{compression}; {sizes['stored_as_is']:,} stored as they are"
    terminal.title(printable(document["name"]), f": {amount(document['samples'], 'sample')}")
    terminal.fields(
        [
            ("compression", compression),
            ("stored", stored_text(document)),
            (
                "payload",
                (
                    f"{size(sizes['smallest_bytes'])} to {size(sizes['largest_bytes'])}, "
                    f"{size(sizes['mean_bytes'])} on average"
                ),
            ),
        ]
    )
    terminal.write_line()
    _show_bars(
        terminal,
        ">payload from",
        [(binary_size(entry["from_bytes"]), entry["count"]) for entry in sizes["histogram"]],
        document["samples"],
    )
    for column in document["columns"]:
        terminal.write_line()
        _show_column(terminal, column, document["samples"])


def _show_column(terminal: Terminal, column: dict[str, Any], samples: int) -> None:
    parts = []
    if column["values"] is None:
        parts.append(f"more than {column['more_values_than']:,} values")
    else:
        parts.append(amount(column["values"], "value"))
    if column.get("smallest") is not None:
        parts.append(f"from {column['smallest']} to {column['largest']}")
    if column["nulls"] > 0:
        parts.append(amount(column["nulls"], "null"))
    if column.get("nans", 0) > 0:
        parts.append(f"{column['nans']:,} NaN")
    terminal.title(printable(column["name"]), f" ({column['type']}): {', '.join(parts)}")
    counts = column.get("counts")
    if not counts:
        return
    bars = [(literal(entry["value"]), entry["count"]) for entry in counts]
    if column["other_count"] > 0:
        others = amount(column["values"] - len(counts), "other value")
        bars.append((others, column["other_count"]))
    _show_bars(terminal, "value", bars, samples)


def _show_bars(
    terminal: Terminal, header: str, bars: Sequence[tuple[str, int]], samples: int
) -> None:
    largest = max(count for _, count in bars)
    terminal.table(
        (header, ">samples", ">share", ""),
        [
            (label, f"{count:,}", f"{count / samples:.1%}", Bar(count, largest))
            for label, count in bars
        ],
    )
