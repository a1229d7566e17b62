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
from dataset_rt.exceptions import ConfigError, DatasetRtError
from dataset_rt_torch.partition import Population, keep_weights, kept_weights, weights_of

if TYPE_CHECKING:
    from dataset_rt_torch.partition import Partition

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
        num_parts: How many parts of the population it holds for this rank; 0 for the population.
        seed: The seed of the stream; None for the one it was exported with.
    """

    def __init__(self, path: str, num_parts: int = 0, seed: int | None = None) -> None:
        """Refer to an exported directory without owning it."""
        self.path = path
        self.num_parts = num_parts
        self.seed = seed
        # The directory lasts as long as its owner.
        self._owner: Snapshot | None = None

    @classmethod
    def export(
        cls,
        native: _core.Dataset,
        work_dir: str | None,
        *,
        seed: int,
        shuffle: bool,
        replacement: bool,
        partition: Partition | None = None,
    ) -> Snapshot:
        """Write the dataset's present state to a fresh directory, which the result owns.

        Args:
            native: The dataset to export.
            work_dir: Where to make the directory; None for the system's temporary directory.
            seed: The seed of the stream.
            shuffle: Whether rows are drawn at random.
            replacement: Whether a drawn row may be drawn again at once.
            partition: The parts that consumers draw from; None where all draw from all rows.

        Raises:
            WeightError: The order cannot honour the weights of the table.
            ConfigError: There are more parts than rows that can be drawn.
            OSError: The directory cannot be made or written.
        """
        snapshot = cls._owned(work_dir)
        native.export_snapshot(snapshot.path, seed=seed, shuffle=shuffle, replacement=replacement)
        if partition is not None:
            keep_weights(snapshot.path, weights_of(native))
            snapshot.export_parts(partition, seed)
        return snapshot

    def reseeded(
        self,
        work_dir: str | None,
        *,
        seed: int,
        shuffle: bool,
        replacement: bool,
        partition: Partition | None = None,
    ) -> Snapshot:
        """Return the same table with another seed; the arguments are those of `export`.

        Nothing is written, as no table depends on the seed, unless there are parts, which do.
        """
        if partition is None:
            snapshot = Snapshot(self.path, seed=seed)
            snapshot._owner = self._owner or self
            return snapshot
        native = _core.Dataset.open_snapshot(self.path, _core.ThreadPool(1))
        snapshot = self._owned(work_dir)
        native.export_snapshot(snapshot.path, seed=seed, shuffle=shuffle, replacement=replacement)
        keep_weights(snapshot.path, kept_weights(self.path))
        snapshot.export_parts(partition, seed)
        return snapshot

    def export_parts(self, partition: Partition, seed: int) -> None:
        """Write the parts of this rank into the snapshot of the population.

        Args:
            partition: The parts.
            seed: The seed of the stream.
        """
        population = Population(self.path, partition.num_parts, seed=seed)
        for part in range(partition.parts_per_rank):
            population.restricted_to(partition.number_of(part)).export_snapshot(
                self._part_path(part), seed=seed, shuffle=True, replacement=True
            )
        self.num_parts = partition.parts_per_rank

    def _part_path(self, part: int) -> str:
        return str(Path(self.path) / f"part-{part}")

    @classmethod
    def _owned(cls, work_dir: str | None) -> Snapshot:
        if work_dir is None:
            _remove_abandoned_once()
        else:
            _make_directory(work_dir)
        directory = tempfile.mkdtemp(prefix=_PREFIX, dir=work_dir)
        snapshot = cls(directory)
        # Before the export, so that a failed or interrupted one leaves nothing behind either.
        Finalize(snapshot, _remove, args=(directory, _lock(directory)), exitpriority=_EXIT_PRIORITY)
        return snapshot

    def open_parts(self, num_threads: int) -> list[_core.Dataset]:
        """Map the parts of the population in this process, with one pool of reader threads.

        Raises:
            DatasetRtError: The directory was removed.
        """
        if not Path(self.path).is_dir():
            raise DatasetRtError(
                f"the loader's snapshot {self.path} is gone, expected it to last as long as the "
                "loader\n"
                "hint: make the loader anew, with a work_dir that nothing else cleans up"
            )
        pool = _core.ThreadPool(num_threads)
        paths = [self._part_path(part) for part in range(self.num_parts)] or [self.path]
        return [_core.Dataset.open_snapshot(path, pool, seed=self.seed) for path in paths]

    def __reduce__(self) -> tuple[type[Snapshot], tuple[str, int, int | None]]:
        """Pickle the path, not the ownership."""
        return Snapshot, (self.path, self.num_parts, self.seed)

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
