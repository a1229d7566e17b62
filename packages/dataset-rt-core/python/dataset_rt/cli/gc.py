"""``dataset-rt gc``: removes what dead builds left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataset_rt.cli.failures import SUCCESS, CommandError
from dataset_rt.cli.info import exact_size, status_fields
from dataset_rt.cli.places import absolute, is_cache
from dataset_rt.cli.text import amount, printable, size
from dataset_rt.maintenance import remove_abandoned, status

if TYPE_CHECKING:
    from dataset_rt.cli.terminal import Terminal


def run(terminal: Terminal, base: str, *, is_dry_run: bool, as_json: bool) -> int:
    """Remove abandoned builds, or say which would be."""
    if is_cache(base):
        raise CommandError(f"{base} is a cache, expected the directory that holds caches")
    entries = status(base)
    if is_dry_run:
        removed = tuple(entry for entry in entries if entry.state == "abandoned")
    else:
        removed = remove_abandoned(base)
    document = {
        "path": absolute(base),
        "is_dry_run": is_dry_run,
        "removed": [status_fields(entry) for entry in removed],
        "removed_bytes": sum(entry.stored_bytes for entry in removed),
        "building": [status_fields(entry) for entry in entries if entry.state == "building"],
    }
    if as_json:
        terminal.write_json(document)
    else:
        _show(terminal, base, document)
    return SUCCESS


def _show(terminal: Terminal, base: str, document: dict[str, Any]) -> None:
    would = "would be " if document["is_dry_run"] else ""
    for entry in document["removed"]:
        contents = size(entry["stored_bytes"])
        if entry["samples"] > 0:
            contents = f"{contents}, {amount(entry['samples'], 'sample')} in complete shards"
        message = f"; {entry['message']}" if entry["message"] else ""
        terminal.write_line(printable(f"{would}removed: {entry['name']}, {contents}{message}"))
    for entry in document["building"]:
        terminal.write_line(printable(f"left alone: {entry['name']}, {entry['message']}"))
    if document["removed"]:
        builds = amount(len(document["removed"]), "abandoned build")
        freed = exact_size(document["removed_bytes"])
        terminal.write_line(printable(f"{builds} {would}removed from {base}, {freed}"))
    else:
        terminal.write_line(printable(f"no abandoned builds in {base}"))
