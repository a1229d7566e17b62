"""Owns the directory that the processes of a loader map: exports it, and removes it after use."""

from __future__ import annotations

import shutil
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from dataset_rt import _core

if TYPE_CHECKING:
    from collections.abc import Callable

# After the loading workers: multiprocessing ends them at exit before it runs negative priorities.
_EXIT_PRIORITY = -10


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
        if work_dir is not None:
            Path(work_dir).mkdir(parents=True, exist_ok=True)
        directory = tempfile.mkdtemp(prefix="dataset-rt-snapshot-", dir=work_dir)
        snapshot = cls(directory)
        # Before the export, so that a failed or interrupted one leaves nothing behind either.
        Finalize(snapshot, _remove, args=(directory,), exitpriority=_EXIT_PRIORITY)
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


def _remove(directory: str) -> None:
    # At exit and in garbage collection there is nobody to tell, and a directory that something
    # else has removed is no fault.
    shutil.rmtree(directory, ignore_errors=True)
