"""Reads the next windows while the caller is busy, for loaders without worker processes."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt_torch.windows import Window


class PendingWindow:
    """A window whose samples are being read, or have been read, in the background."""

    __slots__ = ("result", "window")

    def __init__(self, window: Window, result: Callable[[], Any]) -> None:
        """Pair a window with the read that was begun for it.

        Args:
            window: The window.
            result: Waits for the read and returns what it gave, or raises what it raised.
        """
        self.window = window
        self.result = result

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.window)


class ReadAhead:
    """An iterator over windows that keeps the reads of the next ``depth`` windows going.

    Reads that only ask native threads to begin are begun by whoever takes a window. For those that
    take time there is one thread, which reads one window at a time, natively and without the
    interpreter lock, while the caller transforms a batch or trains on it. It never waits for the
    caller: each window taken submits one more, so there is nothing that a broken-off loop could
    leave blocked. It ends with the last window, or when this object is dropped.

    Attributes:
        next_batch: The batch after the last one taken.
    """

    def __init__(
        self,
        windows: Iterator[Window],
        read: Callable[[Window], Any],
        *,
        takes_time: bool,
        depth: int,
        first_batch: int,
    ) -> None:
        """Begin to read the first ``depth`` windows."""
        self.next_batch = first_batch
        self._windows = windows
        self._read = read
        self._pending: deque[tuple[Window, Callable[[], Any] | None]] = deque()
        self._process_id = os.getpid()
        # The executor joins its thread before the interpreter goes down, where a bare daemon
        # thread could be cut off inside native code.
        self._executor = (
            ThreadPoolExecutor(1, thread_name_prefix="dataset-rt-read-ahead")
            if takes_time
            else None
        )
        for _ in range(depth):
            self._submit()

    def __iter__(self) -> ReadAhead:
        """Return itself."""
        return self

    def __next__(self) -> Window | PendingWindow:
        """Return the next window with its read, and begin to read one more."""
        if not self._pending:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
            raise StopIteration
        window, result = self._pending.popleft()
        self.next_batch = window.batch + 1
        if os.getpid() != self._process_id:
            # A forked child has no such threads; the window alone makes the dataset read here.
            following = next(self._windows, None)
            if following is not None:
                self._pending.append((following, None))
            return window
        self._submit()
        return window if result is None else PendingWindow(window, result)

    def __del__(self) -> None:
        """Let the thread end after the read it is in."""
        executor = getattr(self, "_executor", None)
        if executor is not None and os.getpid() == self._process_id:
            executor.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> None:
        window = next(self._windows, None)
        if window is not None:
            self._pending.append((window, self._begin(window)))

    def _begin(self, window: Window) -> Callable[[], Any] | None:
        if self._executor is not None:
            return self._executor.submit(self._read, window).result
        try:
            begun = self._read(window)
        except Exception:  # noqa: BLE001
            # It is not this window's turn to fail; when it is, the dataset reads it anew.
            return None
        return lambda: begun
