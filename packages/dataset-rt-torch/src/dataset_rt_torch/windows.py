"""Turns the plan of an epoch into windows of stream positions, one small window per batch."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils.data import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt._core import WindowPlan


@dataclass(frozen=True, slots=True)
class Window:
    """The stream positions of one batch on one rank; all that a worker needs to know of a batch.

    Attributes:
        epoch: The epoch the batch belongs to.
        batch: The number of the batch in its epoch.
        start: The first stream position.
        stop: The position after the last one.
        padding_from: The first position that only pads the batch; ``stop`` where none does.
        seed: The seed of the stream.

    Example:
        >>> len(Window(epoch=0, batch=1, start=8, stop=16, padding_from=16, seed=42))
        8
    """

    epoch: int
    batch: int
    start: int
    stop: int
    padding_from: int
    seed: int

    def __len__(self) -> int:
        """Return the number of samples, padding included."""
        return self.stop - self.start


class WindowSampler(Sampler[Window]):
    """The batch sampler of a loader: the windows of its upcoming pass, in order.

    It runs in the training process only, so no worker holds sampling state.

    Attributes:
        plan: Which positions each batch covers.
        seed: The seed that is put into each window.
        batch_size: Samples per batch on this rank.
        drop_last: Whether a last, smaller batch is left out.
    """

    def __init__(self, plan: WindowPlan, *, seed: int, batch_size: int, drop_last: bool) -> None:
        """Start at the first batch of epoch 0."""
        self.plan = plan
        self.seed = seed
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._epoch = 0
        self._first_batch = 0
        self._read_ahead: Callable[[Iterator[Window]], Iterator[Any]] | None = None

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return self.plan.num_batches

    def __iter__(self) -> Iterator[Window]:
        """Return the windows of the upcoming pass; asking twice gives the same windows twice."""
        # Torch asks for two iterators per pass and uses the second, so asking must change nothing.
        windows = _windows(self.plan, self.seed, self._epoch, self._first_batch)
        return windows if self._read_ahead is None else self._read_ahead(windows)

    def move_to(self, epoch: int, first_batch: int) -> None:
        """Make the pass that begins at a batch of an epoch the upcoming one."""
        self._epoch = epoch
        self._first_batch = first_batch

    @contextmanager
    def reading_ahead(
        self, read_ahead: Callable[[Iterator[Window]], Iterator[Any]] | None
    ) -> Iterator[None]:
        """Pass the windows of iterators made inside the block through ``read_ahead``."""
        self._read_ahead = read_ahead
        try:
            yield
        finally:
            self._read_ahead = None


def _windows(plan: WindowPlan, seed: int, epoch: int, first_batch: int) -> Iterator[Window]:
    for batch in range(first_batch, plan.num_batches):
        start, stop, padding_from = plan.window(epoch, batch)
        yield Window(epoch, batch, start, stop, padding_from, seed)
