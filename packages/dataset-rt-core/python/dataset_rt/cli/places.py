"""Tells caches from directories of caches, and opens the former."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataset_rt import DatasetRuntime, ReaderConfig
from dataset_rt.cli.failures import CommandError
from dataset_rt.maintenance import status

if TYPE_CHECKING:
    from dataset_rt.dataset import CachedDataset

_MANIFEST = "manifest.json"
_OTHER_FILES = ("index.bin", "metadata.arrow")
_LISTED_CACHES = 5


def is_cache(path: str) -> bool:
    """Say whether a path is a cache, be it one that lost its manifest, and no directory of them.

    Raises:
        OSError: There is nothing at the path, or it cannot be looked at.
        CommandError: It is no directory.
    """
    if not stat.S_ISDIR(Path(path).stat().st_mode):
        raise CommandError(f"{path} is a file, expected a directory")
    # Files only: a cache in a directory of caches may have such a name.
    return any(Path(path, name).is_file() for name in (_MANIFEST, *_OTHER_FILES))


def caches_in(path: str) -> list[str]:
    """Return the path itself if it is a cache, else the caches in that directory.

    Raises:
        CommandError: It is a directory without caches.
    """
    if is_cache(path):
        return [path]
    found = [entry for entry in status(path) if entry.state in ("complete", "damaged")]
    if not found:
        raise CommandError(f"{path} holds no cache")
    return [str(Path(path, entry.path.name)) for entry in found]


def open_cache(path: str) -> tuple[CachedDataset, dict[str, Any]]:
    """Open one cache in table order, and return it with its manifest.

    Raises:
        CommandError: The path is a directory of caches.
    """
    if not is_cache(path):
        _refuse_directory(path)
    dataset = DatasetRuntime().cached_dataset(path, reader_config=ReaderConfig(shuffle=False))
    # Opening has compared the manifest with its digest and found it consistent.
    manifest: dict[str, Any] = json.loads(Path(path, _MANIFEST).read_bytes())
    return dataset, manifest


def absolute(path: str) -> str:
    """Return the path as JSON documents have it: absolute, so that any reader can find it."""
    return str(Path(path).absolute())


def _refuse_directory(path: str) -> None:
    found = [entry.path.name for entry in status(path) if entry.state == "complete"]
    message = f"{path} is no cache"
    if found:
        listed = ", ".join(found[:_LISTED_CACHES])
        rest = ", ..." if len(found) > _LISTED_CACHES else ""
        message = f"{message}, but a directory of caches\nhint: name one of them: {listed}{rest}"
    raise CommandError(message)
