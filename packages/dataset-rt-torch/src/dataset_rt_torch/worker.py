"""The dataset that torch hands to each process: turns a window into its samples or its batch."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from torch.utils.data import Dataset, get_worker_info

from dataset_rt import _core
from dataset_rt.batch import CachedBatch
from dataset_rt_torch.failures import BatchFailure
from dataset_rt_torch.readahead import PendingWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import numpy.typing as npt

    from dataset_rt.records import CachedSample
    from dataset_rt_torch.failures import StartFailure
    from dataset_rt_torch.options import LoaderOptions
    from dataset_rt_torch.snapshot import Snapshot
    from dataset_rt_torch.windows import Window


@dataclass(frozen=True, slots=True)
class WindowSamples:
    """The samples of one window, each made when it is asked for.

    What comes from the disk or is compressed is read ahead by native threads. A sample that is
    dropped before the next is asked for leaves its memory to that one, which keeps large payloads
    in the processor's cache.
    """

    native: _core.SampleIterator

    def __iter__(self) -> Iterator[CachedSample]:
        """Return the native iterator, which can be exhausted once."""
        return self.native

    def all(self) -> list[CachedSample]:
        """Make all samples."""
        return list(self.native)


StackedArray: TypeAlias = (
    "tuple[str, str, list[int], npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]"
)
"""Name, name of the type, shape and bytes of an array, and lengths, which only padding needs."""


@dataclass(slots=True)
class ReadWindow:
    """A window with what is in it.

    Attributes:
        window: The window.
        content: Its samples, still to be made, its batch, or the stacked arrays of its payloads.
        read_nanoseconds: How long this process was kept from going on by reading it.
    """

    window: Window
    content: WindowSamples | CachedBatch | list[StackedArray]
    read_nanoseconds: int = 0


WindowContent = Literal["samples", "batch", "arrays"]
"""What a window becomes: samples, a `CachedBatch`, or the stacked arrays of its payloads."""


def content_of(options: LoaderOptions) -> WindowContent:
    """Return what the windows of a loader become.

    Args:
        options: The options of the loader.
    """
    if options.stacks_arrays:
        return "arrays"
    return "samples" if options.batch_transform_fn is None else "batch"


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
        self._parts: list[_core.Dataset] | None = None
        self._process_id = os.getpid()
        self._inherited: list[list[_core.Dataset]] = []

    @property
    def parts(self) -> list[_core.Dataset]:
        """The open datasets of this process, one for each part; the only one if not divided."""
        self._leave_parent()
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    self._parts = self.snapshot.open_parts(self.num_threads)
        return self._parts

    def _leave_parent(self) -> None:
        """In a forked child, make room for datasets of its own."""
        if self._process_id == os.getpid():
            return
        self._process_id = os.getpid()
        # A thread that was not forked may hold it.
        self._lock = threading.Lock()
        if self._parts is not None:
            # Kept, because dropping it would wait for the parent's threads.
            self._inherited.append(self._parts)
            self._parts = None

    def reseeded(self, seed: int, options: LoaderOptions) -> OpenSnapshot:
        """Return the same table with the stream of another seed."""
        snapshot = self.snapshot.reseeded(
            options.work_dir,
            seed=seed,
            shuffle=options.shuffle,
            replacement=options.replacement,
            partition=options.partition,
        )
        return OpenSnapshot(snapshot, self.num_threads)

    def __reduce__(self) -> tuple[type[OpenSnapshot], tuple[Snapshot, int]]:
        """Pickle how to open it."""
        return OpenSnapshot, (self.snapshot, self.num_threads)


class WindowDataset(Dataset[Any]):
    """A map-style dataset whose one index is a whole window.

    Attributes:
        opened: The snapshot that is read.
        start_failure: Why this process, a worker, is not fit to read; None where it is.
    """

    start_failure: StartFailure | None = None

    def __init__(self, opened: OpenSnapshot, *, content: WindowContent, num_samples: int) -> None:
        """Describe what to read.

        Args:
            opened: The snapshot.
            content: What a window becomes.
            num_samples: The length: samples of an epoch over all ranks.
        """
        self.opened = opened
        self._content = content
        self._num_samples = num_samples

    def __len__(self) -> int:
        """Return the number of samples of an epoch over all ranks."""
        return self._num_samples

    def __getitem__(self, window: Window) -> ReadWindow | BatchFailure:
        """Return what is in a window."""
        return self.__getitems__(window)

    def __getitems__(self, window: Window | PendingWindow) -> ReadWindow | BatchFailure:
        """Return what is in a window; in a worker process, a failure in place of an error."""
        if self.start_failure is not None:
            return self.start_failure
        began = time.perf_counter_ns()
        try:
            read: ReadWindow = (
                window.result() if isinstance(window, PendingWindow) else self.read(window)
            )
        except Exception as error:
            if get_worker_info() is None:
                raise
            return BatchFailure(error)
        read.read_nanoseconds = time.perf_counter_ns() - began
        return read

    def reseed(self, seed: int, options: LoaderOptions) -> None:
        """Read another seed's stream over the same table from now on."""
        self.opened = self.opened.reseeded(seed, options)

    def begin(self, window: Window) -> Callable[[], ReadWindow]:
        """Have native threads begin to read a window, and return what waits for the result."""
        native = self.opened.parts[window.part]
        if self._content == "samples":
            samples = native.iter_window(window.start, window.stop)
            return lambda: ReadWindow(window, WindowSamples(samples))
        pending = native.begin_batch(
            window.start, window.stop, window.padding_from, stacks=self._content == "arrays"
        )
        return lambda: self._whole_window(window, pending.result())

    def read(self, window: Window) -> ReadWindow:
        """Read a window here and now: its whole batch, or its samples as they are asked for."""
        native = self.opened.parts[window.part]
        if self._content == "samples":
            samples = native.iter_window(window.start, window.stop, reads_ahead=False)
            return ReadWindow(window, WindowSamples(samples))
        batch = native.batch_of_window(
            window.start, window.stop, window.padding_from, gathers=self._content == "batch"
        )
        return self._whole_window(window, batch)

    def _whole_window(self, window: Window, batch: _core.Batch) -> ReadWindow:
        stacks = self._content == "arrays"
        return ReadWindow(window, _core.stack_arrays(batch, None) if stacks else CachedBatch(batch))
