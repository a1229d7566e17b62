"""One pass over a loader: hands out batches and counts those that the caller has got."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataset_rt.exceptions import DatasetRtError
from dataset_rt_torch.failures import BatchFailure, StartFailure
from dataset_rt_torch.worker_death import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt_torch.delivery import DeliveredBatch
    from dataset_rt_torch.readahead import ReadAhead
    from dataset_rt_torch.stats import PassTimes
    from dataset_rt_torch.worker_signals import WatchedWorkers


def keep_until_gone(owner: object, batches: Iterator[Any]) -> weakref.finalize[Any, Any]:
    """Keep torch's iterator out of any reference cycle that its owner gets into.

    A caller's cycle (an exception whose traceback holds the frame that holds the exception, say)
    is collected in no particular order: the queues of torch's iterator could go before it has told
    its workers to leave, and it would wait five seconds for each. Held from here, it is whole
    when its last reference goes.

    Args:
        owner: What the iterator lives as long as.
        batches: Torch's iterator.

    Returns:
        What keeps it; detach it to let the iterator go earlier.
    """
    keeper = weakref.finalize(owner, _let_go, batches)
    keeper.atexit = False
    return keeper


def _let_go(_batches: Iterator[Any]) -> None:
    """Do nothing: what matters is that the reference ends with this call."""


@dataclass(slots=True)
class PassProgress:
    """How far a pass has come; the loader and the iterator of the pass share it.

    Attributes:
        epoch: The epoch of the pass.
        next_batch: The number of the first batch that the caller has not got.
    """

    epoch: int
    next_batch: int


class LoaderIterator:
    """The iterator of one pass.

    It holds torch's iterator and is held by the caller alone, so that workers leave as soon as the
    caller drops it.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        progress: PassProgress,
        times: PassTimes,
        *,
        num_batches: int,
        read_ahead: ReadAhead | None,
        workers: WatchedWorkers | None,
        timeout_seconds: float,
        when_broken: Callable[[], None],
    ) -> None:
        """Wrap torch's iterator.

        Args:
            batches: Torch's iterator.
            progress: Where to count.
            times: Where to add up times.
            num_batches: Batches of a whole epoch.
            read_ahead: The windows of a loader without workers, None with workers.
            workers: The workers of a loader that has some.
            timeout_seconds: How long torch waits for a batch; 0 for ever.
            when_broken: Called when torch itself fails, as it does when a worker dies.
        """
        self._batches: Iterator[Any] | None = batches
        self._keeper = keep_until_gone(self, batches)
        self._progress = progress
        self._times = times
        self._received = progress.next_batch
        self._num_batches = num_batches
        self._read_ahead = read_ahead
        self._workers = workers
        self._timeout_seconds = timeout_seconds
        self._when_broken = when_broken
        self._is_superseded = False

    def __iter__(self) -> LoaderIterator:
        """Return itself."""
        return self

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, as torch's iterators do."""
        return self._num_batches

    def __next__(self) -> Any:  # noqa: ANN401
        """Return the next batch, or raise what kept it from being made."""
        if self._is_superseded:
            raise DatasetRtError(
                "this iterator has ended because a newer one of the same loader took over its "
                "persistent workers\n"
                "hint: use persistent_workers=False, or a loader for each loop"
            )
        if self._batches is None:
            raise StopIteration
        explanation = None
        asked = time.perf_counter_ns()
        try:
            delivered: DeliveredBatch = (
                next(self._batches)
                if self._workers is None
                else self._workers.next_batch(self._batches)
            )
        except StopIteration:
            self._times.add_wait(asked)
            self._end()
            raise
        except Exception as error:
            if self._workers is None:
                raise
            explanation = explained(error, self._batches, self._timeout_seconds)
            self._end()
            self._when_broken()
            if explanation is None:
                raise
        if explanation is not None:
            # Out here torch's exception is gone, and with it the frames that held torch's iterator.
            # While that lived, torch would raise anew whenever any other child process ends.
            try:
                raise explanation
            finally:
                # Its traceback holds this frame.
                del explanation
        self._received = (
            self._received + 1 if self._read_ahead is None else self._read_ahead.next_batch
        )
        self._times.add_wait(asked)
        if isinstance(delivered.batch, StartFailure):
            # No batch can come from that worker; the next pass starts new ones.
            self._end()
            self._when_broken()
        if isinstance(delivered.batch, BatchFailure):
            # No name may hold the exception here: its traceback holds this frame.
            raise delivered.batch.to_exception() from delivered.batch.to_cause()
        self._times.add_batch(delivered)
        self._progress.next_batch = self._received
        return delivered.batch

    @property
    def is_running(self) -> bool:
        """Whether batches may still come."""
        return self._batches is not None

    def supersede(self) -> None:
        """Give torch's iterator up to a newer pass."""
        self._end()
        self._is_superseded = True

    def _end(self) -> None:
        self._batches = None
        self._read_ahead = None
        self._keeper.detach()
