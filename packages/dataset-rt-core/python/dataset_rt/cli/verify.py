"""``dataset-rt verify``: reads caches whole and lists everything that is not as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataset_rt import DatasetRuntime
from dataset_rt.cli.entries import Entries
from dataset_rt.cli.failures import DAMAGED, SUCCESS
from dataset_rt.cli.places import absolute, caches_in
from dataset_rt.cli.text import amount, printable, size
from dataset_rt.exceptions import CorruptCacheError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataset_rt.cli.terminal import Terminal


def run(terminal: Terminal, paths: Sequence[str], *, as_json: bool) -> int:
    """Verify each cache, going on after those that are damaged or cannot be read."""
    runtime = DatasetRuntime()
    entries = Entries(as_json=as_json)
    for path in paths:
        with entries.attempt(path):
            for cache in caches_in(path):
                with entries.attempt(cache):
                    entry = _verify(runtime, cache, as_json=as_json)
                    entries.add(entry, SUCCESS if entry["is_intact"] else DAMAGED)
                    if not as_json:
                        _show(terminal, cache, entry)
    entries.write(terminal, "caches")
    return entries.status


def _verify(runtime: DatasetRuntime, path: str, *, as_json: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": absolute(path)}
    try:
        found = runtime.verify_cache(path, show_progress=False if as_json else "auto")
    except CorruptCacheError as error:
        # What cannot even be opened is damaged, which is an answer and no failure.
        damages = [{"sample": None, "message": str(error)}]
        return {**entry, "is_intact": False, "damages": damages}
    return {
        **entry,
        "name": found.name,
        "samples": found.samples,
        "read_bytes": found.read_bytes,
        "is_intact": found.is_intact,
        "damages": [
            {"sample": damage.sample, "message": damage.message} for damage in found.damages
        ],
    }


def _show(terminal: Terminal, path: str, entry: dict[str, Any]) -> None:
    contents = ""
    if "samples" in entry:
        contents = f"{amount(entry['samples'], 'sample')}, {size(entry['read_bytes'])}, "
    if entry["is_intact"]:
        terminal.write_line(f"{printable(path)}: {contents}intact")
        return
    damages = entry["damages"]
    terminal.title(printable(path), f": {contents}{amount(len(damages), 'damage')}")
    for damage in damages:
        terminal.write_line(f"  {printable(damage['message'])}")
