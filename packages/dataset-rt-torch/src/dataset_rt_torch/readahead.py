"""Begins to read the next windows while the caller is busy, for loaders without workers."""

from __future__ import annotations

import os
from collections import deque
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

    Native threads read, without the interpreter lock, while the caller transforms a batch or trains
    on it. They never wait for the caller: each window taken begins one more, so there is nothing
    that a broken-off loop could leave blocked, and what has not begun when this object is dropped
    is never done.

    Attributes:
        next_batch: The batch after the last one taken.
    """

    def __init__(
        self,
        windows: Iterator[Window],
        begin: Callable[[Window], Callable[[], Any]],
        *,
        depth: int,
        first_batch: int,
    ) -> None:
        """Begin to read the first ``depth`` windows.

        Args:
            windows: The windows.
            begin: Has native threads begin to read a window, and returns what waits for the result.
            depth: How many windows are being read or ready.
            first_batch: The batch of the first window.
        """
        self.next_batch = first_batch
        self._windows = windows
        self._begin = begin
        self._pending: deque[tuple[Window, Callable[[], Any] | None]] = deque()
        self._process_id = os.getpid()
        for _ in range(depth):
            self._begin_next()

    def __iter__(self) -> ReadAhead:
        """Return itself."""
        return self

    def __next__(self) -> Window | PendingWindow:
        """Return the next window with its read, and begin to read one more."""
        if not self._pending:
            raise StopIteration
        self._begin_next()
        window, result = self._pending.popleft()
        self.next_batch = window.batch + 1
        # A forked child has no such threads; the window alone makes the dataset read here.
        if result is None or os.getpid() != self._process_id:
            return window
        return PendingWindow(window, result)

    def _begin_next(self) -> None:
        window = next(self._windows, None)
        if window is None:
            return
        result: Callable[[], Any] | None = None
        try:
            if os.getpid() == self._process_id:
                result = self._begin(window)
        except Exception:  # noqa: BLE001
            # It is not this window's turn to fail; when it is, the dataset reads it anew.
            result = None
        finally:
            # Not even Ctrl-C loses a window.
            self._pending.append((window, result))
