"""Owns the directory that the processes of a loader map: exports it, and removes it after use."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import stat
import tempfile
import time
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from dataset_rt import _core
from dataset_rt.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

# After the loading workers: multiprocessing ends them at exit before it runs negative priorities.
_EXIT_PRIORITY = -10
_PREFIX = "dataset-rt-snapshot-"
# A younger directory may be one whose owner is just about to lock it.
_MIN_ABANDONED_SECONDS = 60


class Snapshot:
    """A dataset as it was when a loader was built: cache paths, active rows and weight table.

    The directory lives as long as this object, or until the process exits. A copy that arrived in
    another process by pickling only knows the path, and a forked child inherits no duty to clean
    up, so the directory is removed once, by the process that made it.

    Attributes:
        path: The directory.
    """

    def __init__(self, path: str) -> None:
        """Refer to an exported directory without owning it."""
        self.path = path

    @classmethod
    def export(
        cls,
        native: _core.Dataset,
        work_dir: str | None,
        *,
        seed: int,
        shuffle: bool,
        replacement: bool,
    ) -> Snapshot:
        """Write the dataset's present state to a fresh directory, which the result owns.

        Args:
            native: The dataset to export.
            work_dir: Where to make the directory; None for the system's temporary directory.
            seed: The seed of the stream.
            shuffle: Whether rows are drawn at random.
            replacement: Whether a drawn row may be drawn again at once.

        Raises:
            WeightError: The order cannot honour the weights of the table.
            OSError: The directory cannot be made or written.
        """

        def write(directory: str) -> None:
            native.export_snapshot(directory, seed=seed, shuffle=shuffle, replacement=replacement)

        return cls._owned(write, work_dir)

    @classmethod
    def _owned(cls, write: Callable[[str], None], work_dir: str | None) -> Snapshot:
        if work_dir is None:
            _remove_abandoned_once()
        else:
            _make_directory(work_dir)
        directory = tempfile.mkdtemp(prefix=_PREFIX, dir=work_dir)
        snapshot = cls(directory)
        # Before the export, so that a failed or interrupted one leaves nothing behind either.
        Finalize(snapshot, _remove, args=(directory, _lock(directory)), exitpriority=_EXIT_PRIORITY)
        write(directory)
        return snapshot

    def open(self, num_threads: int) -> _core.Dataset:
        """Map the snapshot in this process, with a pool of reader threads."""
        return _core.Dataset.open_snapshot(self.path, _core.ThreadPool(num_threads))

    def __reduce__(self) -> tuple[type[Snapshot], tuple[str]]:
        """Pickle the path alone."""
        return Snapshot, (self.path,)

    def __repr__(self) -> str:
        """Show the directory."""
        return f"Snapshot({self.path!r})"


def remove_abandoned(parent: str) -> None:
    """Remove the snapshots in a directory whose processes were killed before they could.

    A living owner holds a lock on its snapshot, which the system takes back when it dies. Only for
    directories of one machine: elsewhere a lock may not be seen by all.
    """
    newest = time.time() - _MIN_ABANDONED_SECONDS
    for entry in os.scandir(parent):
        # The owner may be anybody, and anything may vanish meanwhile.
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if (
                entry.name.startswith(_PREFIX)
                and stat.S_ISDIR(status.st_mode)
                and status.st_uid == os.getuid()
                and status.st_mtime < newest
            ):
                lock = _lock(entry.path)
                if lock is not None:
                    _remove(entry.path, lock)


@functools.cache
def _remove_abandoned_once() -> None:
    with contextlib.suppress(OSError):
        remove_abandoned(tempfile.gettempdir())


def _lock(directory: str) -> int | None:
    """Lock a directory and return the descriptor that holds the lock.

    None where another process holds it, or where the file system has no locks; such snapshots are
    never taken for abandoned.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _make_directory(work_dir: str) -> None:
    try:
        Path(work_dir).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"work_dir is {work_dir!r}, which is no directory") from None


def _remove(directory: str, lock: int | None) -> None:
    # At exit and in garbage collection there is nobody to tell, and a directory that something
    # else has removed is no fault.
    shutil.rmtree(directory, ignore_errors=True)
    if lock is not None:
        os.close(lock)
