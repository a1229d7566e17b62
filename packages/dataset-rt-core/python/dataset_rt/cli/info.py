"""``dataset-rt info``: what a cache consists of, or what a directory of caches holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dataset_rt.cli.entries import Entries
from dataset_rt.cli.places import absolute, is_cache, open_cache
from dataset_rt.cli.text import amount, printable, size
from dataset_rt.maintenance import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataset_rt.cli.terminal import Terminal
    from dataset_rt.maintenance import CacheStatus

_SHOWN_CHARACTERS = 200
_PYTHON_TYPES = {
    "boolean": "bool",
    "integer": "int",
    "float": "float",
    "string": "str",
    "null": "None",
}


def run(terminal: Terminal, paths: Sequence[str], *, as_json: bool) -> int:
    """Describe each path, going on after those that cannot be described."""
    entries = Entries(as_json=as_json)
    is_first = True
    for path in paths:
        with entries.attempt(path):
            entry = _of_cache(path) if is_cache(path) else _of_directory(path)
            if not as_json:
                if not is_first:
                    terminal.write_line()
                is_first = False
                _show(terminal, path, entry)
            entries.add(entry)
    entries.write(terminal, "entries")
    return entries.status


def cache_fields(path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what the manifest of a cache says, under the names that Python users know."""
    dictionary = manifest.get("dictionary")
    return {
        "kind": "cache",
        "path": absolute(path),
        "name": manifest["name"],
        "cache_id": manifest["cache_id"],
        "format_version": manifest["version"],
        "samples": manifest["samples"],
        "payload_bytes": manifest["payload_bytes"],
        "stored_bytes": manifest["stored_bytes"],
        "compression": manifest["compression"],
        "compression_level": manifest["compression_level"],
        "dictionary_bytes": None if dictionary is None else dictionary["bytes"],
        "shards": len(manifest["shards"]),
        "columns": [
            {"name": column["name"], "type": _PYTHON_TYPES[column["type"]]}
            for column in manifest["columns"]
        ],
        "fingerprint": manifest["fingerprint"],
    }


def compression_text(entry: dict[str, Any]) -> str:
    """Return how the records of a cache are compressed, in words."""
    parts = [entry["compression"]]
    if entry["compression_level"] is not None:
        parts.append(f"level {entry['compression_level']}")
    if entry["dictionary_bytes"] is not None:
        parts.append(f"dictionary of {size(entry['dictionary_bytes'])}")
    return ", ".join(parts)


def stored_text(entry: dict[str, Any]) -> str:
    """Return how many bytes are stored, with the compression ratio if they are compressed."""
    text = exact_size(entry["stored_bytes"])
    if entry["compression"] != "none" and entry["stored_bytes"] > 0:
        ratio = entry["payload_bytes"] / entry["stored_bytes"]
        text = f"{text}, ratio {ratio:.2f}"
    return text


def exact_size(count: int) -> str:
    """Return a number of bytes as people read it, and to the byte."""
    short = size(count)
    return short if short.endswith(" B") else f"{short} ({count:,} bytes)"


def _of_cache(path: str) -> dict[str, Any]:
    dataset, manifest = open_cache(path)
    dataset.close()
    return cache_fields(path, manifest)


def _of_directory(path: str) -> dict[str, Any]:
    return {
        "kind": "directory",
        "path": absolute(path),
        "caches": [status_fields(cache) for cache in status(path)],
    }


def status_fields(cache: CacheStatus) -> dict[str, Any]:
    """Return one entry of a directory of caches."""
    return {
        "name": cache.name,
        "path": str(cache.path),
        "state": cache.state,
        "samples": cache.samples,
        "payload_bytes": cache.payload_bytes,
        "stored_bytes": cache.stored_bytes,
        "message": cache.message,
    }


def _show(terminal: Terminal, path: str, entry: dict[str, Any]) -> None:
    if entry["kind"] == "cache":
        _show_cache(terminal, path, entry)
    else:
        _show_directory(terminal, path, entry)


def _show_cache(terminal: Terminal, path: str, entry: dict[str, Any]) -> None:
    columns = ", ".join(
        f"{printable(column['name'])} ({column['type']})" for column in entry["columns"]
    )
    fields = [
        ("path", printable(path)),
        ("cache id", str(entry["cache_id"])),
        ("samples", f"{entry['samples']:,}"),
        ("payload", exact_size(entry["payload_bytes"])),
        ("stored", stored_text(entry)),
        ("compression", compression_text(entry)),
        ("shards", f"{entry['shards']:,}"),
        ("columns", columns or "none"),
    ]
    if entry["fingerprint"] is not None:
        text = json.dumps(entry["fingerprint"], ensure_ascii=False)
        if len(text) > _SHOWN_CHARACTERS:
            text = f"{text[:_SHOWN_CHARACTERS]}..."
        fields.append(("fingerprint", printable(text)))
    terminal.title(printable(entry["name"]))
    terminal.fields(fields)


def _show_directory(terminal: Terminal, path: str, entry: dict[str, Any]) -> None:
    caches = entry["caches"]
    terminal.title(printable(path), f": {amount(len(caches), 'entry', 'entries')}")
    if not caches:
        return
    terminal.table(
        ("name", "state", ">samples", ">payload", ">stored"),
        [
            (
                printable(cache["name"]),
                cache["state"],
                f"{cache['samples']:,}",
                size(cache["payload_bytes"]),
                size(cache["stored_bytes"]),
            )
            for cache in caches
        ],
    )
    for cache in caches:
        if cache["message"]:
            message = printable(cache["message"].replace("\n", "; "))
            terminal.write_line(f"{printable(cache['name'])}: {message}")
