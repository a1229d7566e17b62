"""The dataset that torch hands to each process: turns a window into its samples in one call."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils.data import Dataset, get_worker_info

from dataset_rt.batch import CachedBatch
from dataset_rt_torch.failures import BatchFailure
from dataset_rt_torch.readahead import PendingWindow
from dataset_rt_torch.snapshot import Snapshot

if TYPE_CHECKING:
    from dataset_rt import _core
    from dataset_rt.records import CachedSample
    from dataset_rt_torch.options import LoaderOptions
    from dataset_rt_torch.windows import Window


@dataclass(frozen=True, slots=True)
class GatheredWindow:
    """A window with what was read for it: a list of samples, or one batch."""

    window: Window
    content: list[CachedSample] | CachedBatch


class OpenSnapshot:
    """A snapshot that each process opens for itself, at the first read."""

    def __init__(self, snapshot: Snapshot, num_threads: int) -> None:
        """Open nothing yet.

        Args:
            snapshot: What to open.
            num_threads: Native reader threads per process.
        """
        self.snapshot = snapshot
        self.num_threads = num_threads
        self._lock = threading.Lock()
        self._native: _core.Dataset | None = None
        self._process_id = 0
        self._inherited: list[_core.Dataset] = []

    @property
    def native(self) -> _core.Dataset:
        """The open dataset of this process."""
        if self._native is not None and self._process_id == os.getpid():
            return self._native
        with self._lock:
            if self._native is None or self._process_id != os.getpid():
                if self._native is not None:
                    # A forked child must not take the parent's threads apart, so it keeps them.
                    self._inherited.append(self._native)
                self._native = self.snapshot.open(self.num_threads)
                self._process_id = os.getpid()
            return self._native

    def reseeded(self, seed: int, options: LoaderOptions) -> OpenSnapshot:
        """Return the same table with the stream of another seed."""
        snapshot = Snapshot.export(
            self.native,
            options.work_dir,
            seed=seed,
            shuffle=options.shuffle,
            replacement=options.replacement,
        )
        return OpenSnapshot(snapshot, self.num_threads)

    def __reduce__(self) -> tuple[type[OpenSnapshot], tuple[Snapshot, int]]:
        """Pickle how to open it."""
        return OpenSnapshot, (self.snapshot, self.num_threads)


class WindowDataset(Dataset[Any]):
    """A map-style dataset whose one index is a whole window."""

    def __init__(self, opened: OpenSnapshot, *, gathers_batches: bool, num_samples: int) -> None:
        """Describe what to read.

        Args:
            opened: The snapshot.
            gathers_batches: Whether a window becomes a `CachedBatch`, not a list of samples.
            num_samples: The length: samples of an epoch over all ranks.
        """
        self._opened = opened
        self._gathers_batches = gathers_batches
        self._num_samples = num_samples

    def __len__(self) -> int:
        """Return the number of samples of an epoch over all ranks."""
        return self._num_samples

    def __getitem__(self, window: Window) -> GatheredWindow | BatchFailure:
        """Return the samples of a window."""
        return self.__getitems__(window)

    def __getitems__(self, window: Window | PendingWindow) -> GatheredWindow | BatchFailure:
        """Return the samples of a window; in a worker process, a failure in place of an error."""
        if isinstance(window, PendingWindow):
            gathered: GatheredWindow = window.result()
            return gathered
        if get_worker_info() is None:
            return self.gather(window)
        try:
            return self.gather(window)
        except Exception as error:  # noqa: BLE001
            return BatchFailure(error)

    def gather(self, window: Window) -> GatheredWindow:
        """Read a window in one native call."""
        native = self._opened.native
        if self._gathers_batches:
            batch = native.batch_of_window(window.start, window.stop, window.padding_from)
            return GatheredWindow(window, CachedBatch(batch))
        return GatheredWindow(window, native.samples_of_window(window.start, window.stop))

    def reseed(self, seed: int, options: LoaderOptions) -> None:
        """Read another seed's stream over the same table from now on."""
        self._opened = self._opened.reseeded(seed, options)
