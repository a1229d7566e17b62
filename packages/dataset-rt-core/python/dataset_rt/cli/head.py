"""``dataset-rt head``: the first samples of a cache."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from dataset_rt import arguments
from dataset_rt.cli.failures import SUCCESS
from dataset_rt.cli.places import absolute, open_cache
from dataset_rt.cli.text import amount, json_value, literal, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataset_rt.cli.terminal import Terminal
    from dataset_rt.records import CachedSample

_FIRST_BYTES = 32


def run(terminal: Terminal, path: str, count: int, *, as_json: bool) -> int:
    """Read the first ``count`` samples, or all if there are fewer."""
    arguments.integer("--count", count, minimum=1)
    dataset, manifest = open_cache(path)
    with dataset:
        rows = dataset.rows
        shown = min(count, len(rows))
        samples = (rows[row] for row in range(shown))
        if as_json:
            document = {
                "name": manifest["name"],
                "path": absolute(path),
                "cache_id": manifest["cache_id"],
                "samples": [_fields(sample) for sample in samples],
            }
            terminal.write_json(document)
        else:
            terminal.title(
                printable(manifest["name"]), f": {shown:,} of {amount(len(rows), 'sample')}"
            )
            _show(terminal, samples)
    return SUCCESS


def _fields(sample: CachedSample) -> dict[str, Any]:
    return {
        "sample_id": sample.sample_id,
        "bytes": len(sample.data),
        "metadata": {name: json_value(value) for name, value in sample.metadata.items()},
        "first_bytes_base64": base64.b64encode(sample.data[:_FIRST_BYTES]).decode(),
    }


def _show(terminal: Terminal, samples: Iterator[CachedSample]) -> None:
    for sample in samples:
        terminal.title(f"sample {sample.sample_id}", f", {size(len(sample.data))}")
        fields = [(printable(name), literal(value)) for name, value in sample.metadata.items()]
        rest = "..." if len(sample.data) > _FIRST_BYTES else ""
        terminal.fields([*fields, ("payload", f"{sample.data[:_FIRST_BYTES]!r}{rest}")])
