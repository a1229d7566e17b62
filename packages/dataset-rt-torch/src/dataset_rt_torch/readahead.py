"""Reads the next windows in a background thread, for loaders that have no worker processes."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from dataset_rt_torch.windows import Window


class PendingWindow:
    """A window whose samples are being read, or have been read, in the background."""

    __slots__ = ("_future", "window")

    def __init__(self, window: Window, future: Future[Any]) -> None:
        """Pair a window with the read that was begun for it."""
        self.window = window
        self._future = future

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.window)

    def result(self) -> Any:  # noqa: ANN401
        """Wait for the read and return what it gave, or raise what it raised."""
        return self._future.result()


class ReadAhead:
    """An iterator over windows that keeps the reads of the next ``depth`` windows going.

    One thread reads one window at a time, natively and without the interpreter lock, while the
    caller transforms a batch or trains on it. The thread never waits for the caller: each window
    taken submits one more, so there is nothing that a broken-off loop could leave blocked. It ends
    with the last window, or when this object is dropped.

    Attributes:
        next_batch: The batch after the last one taken.
    """

    def __init__(
        self,
        windows: Iterator[Window],
        read: Callable[[Window], Any],
        *,
        depth: int,
        first_batch: int,
    ) -> None:
        """Begin to read the first ``depth`` windows."""
        self.next_batch = first_batch
        self._windows = windows
        self._read = read
        self._pending: deque[tuple[Window, Future[Any]]] = deque()
        self._process_id = os.getpid()
        # The executor joins its thread before the interpreter goes down, where a bare daemon
        # thread could be cut off inside native code.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="dataset-rt-read-ahead")
        for _ in range(depth):
            self._submit()

    def __iter__(self) -> ReadAhead:
        """Return itself."""
        return self

    def __next__(self) -> Window | PendingWindow:
        """Return the next window with its read, and begin to read one more."""
        if not self._pending:
            self._executor.shutdown(wait=False)
            raise StopIteration
        window, future = self._pending.popleft()
        self.next_batch = window.batch + 1
        if os.getpid() != self._process_id:
            # A forked child has no such thread; the window alone makes the dataset read here.
            following = next(self._windows, None)
            if following is not None:
                self._pending.append((following, future))
            return window
        self._submit()
        return PendingWindow(window, future)

    def __del__(self) -> None:
        """Let the thread end after the read it is in."""
        executor = getattr(self, "_executor", None)
        if executor is not None and os.getpid() == self._process_id:
            executor.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> None:
        window = next(self._windows, None)
        if window is not None:
            self._pending.append((window, self._executor.submit(self._read, window)))
