"""Keeps the news that a worker died until its loader is asked for a batch.

Torch hears of a death by a signal, and raises in whatever line the training process runs then: in
the model, in a finaliser where the exception is lost, or in another loader. Here the handler of
torch is told to raise only while somebody waits for a batch of the dead worker.
"""

from __future__ import annotations

import re
import signal
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.utils.data._utils import signal_handling

from dataset_rt_torch.worker_death import has_dead_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_PROCESS_ID = re.compile(r"\(pid (\d+)\)")
_NOBODY: frozenset[int] = frozenset()
# Where the main thread blocks until a batch comes: in the pipe of the workers, or in the queue of
# the thread that pins memory.
_WAITING = {("selectors", "select"), ("threading", "wait")}


class _Notices:
    """What the handler and the loaders of this process tell each other.

    Attributes:
        workers: The process ids of all workers of our loaders.
        awaited: Those of which the main thread waits for a batch.
        num_starting: How many loaders are just starting workers, whose ids are not known yet.
        num_kept: How many deaths were not raised.
    """

    def __init__(self) -> None:
        self.workers: set[int] = set()
        self.awaited = _NOBODY
        self.num_starting = 0
        self.num_kept = 0

    def keeps(self, error: RuntimeError, frame: FrameType | None) -> bool:
        """Return whether a death is that of a worker that nobody waits for right now.

        Between two waits there may be a finaliser, where an exception would be lost. Torch looks
        at its workers before it has waited for long.
        """
        found = _PROCESS_ID.search(str(error))
        if found is None:
            return False
        process_id = int(found[1])
        if process_id in self.awaited and _is_waiting(frame):
            return False
        return process_id in self.workers or self.num_starting > 0


def _is_waiting(frame: FrameType | None) -> bool:
    return frame is not None and (frame.f_globals.get("__name__"), frame.f_code.co_name) in _WAITING


_notices = _Notices()


class _Handler:
    """Runs the handler that was there, and raises of what it raises what cannot wait."""

    def __init__(self, then: Callable[[int, FrameType | None], Any]) -> None:
        self._then = then

    def __call__(self, number: int, frame: FrameType | None) -> None:
        while True:
            try:
                self._then(number, frame)
            except RuntimeError as error:
                if not _notices.keeps(error, frame):
                    raise
                # Torch names the dead of one loader each time, and each only once.
                _notices.num_kept += 1
            else:
                return


def _install() -> None:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGCHLD"):
        return
    # It does so itself later, when workers have been started of which one may have died already.
    signal_handling._set_SIGCHLD_handler()  # noqa: SLF001
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not isinstance(handler, _Handler):
        signal.signal(signal.SIGCHLD, _Handler(handler))


@contextmanager
def watching_new_workers() -> Iterator[None]:
    """Take over what torch hears of the workers that are started inside the block."""
    _install()
    _notices.num_starting += 1
    try:
        yield
    finally:
        _notices.num_starting -= 1


class WatchedWorkers:
    """The workers of one of torch's iterators."""

    def __init__(self, batches: Any) -> None:  # noqa: ANN401
        """Watch them for as long as the iterator lives.

        Args:
            batches: Torch's iterator.
        """
        self._ids = frozenset(worker.pid for worker in batches._workers)  # noqa: SLF001
        # One may have died since it was started; the first batch is preceded by a look.
        self._num_seen = -1
        if not self._ids <= _notices.workers:
            _notices.workers.update(self._ids)
            forget = weakref.finalize(batches, _notices.workers.difference_update, self._ids)
            forget.atexit = False

    def next_batch(self, batches: Any) -> Any:  # noqa: ANN401
        """Return the next batch of torch's iterator.

        Raises:
            RuntimeError: A worker died since the last batch.
        """
        if self._num_seen != _notices.num_kept:
            self._num_seen = _notices.num_kept
            if has_dead_worker(batches):
                raise RuntimeError("a loading worker died before it was waited for")
        if threading.current_thread() is not threading.main_thread():
            # There no signal interrupts the waiting; torch looks at its workers every few seconds.
            return next(batches)
        _notices.awaited = self._ids
        try:
            return next(batches)
        finally:
            _notices.awaited = _NOBODY
