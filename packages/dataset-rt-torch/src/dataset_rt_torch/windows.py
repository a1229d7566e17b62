"""Turns the plan of an epoch into windows of stream positions, one small window per batch."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils.data import Sampler

from dataset_rt.exceptions import ConfigError

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
        part: Which of the rank's parts of the population is drawn from.

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
    part: int = 0

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
        num_parts: Parts of the population that batches of this rank take turns in.
    """

    def __init__(
        self,
        plan: WindowPlan,
        *,
        seed: int,
        batch_size: int,
        drop_last: bool,
        num_parts: int = 1,
    ) -> None:
        """Start at the first batch of epoch 0."""
        self.plan = plan
        self.seed = seed
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_parts = num_parts
        self._epoch = 0
        self._first_batch = 0
        self._is_passing = False
        self._read_ahead: Callable[[Iterator[Window]], Iterator[Any]] | None = None

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return self.plan.num_batches

    def __iter__(self) -> Iterator[Window]:
        """Return the windows of the upcoming pass; asking twice gives the same windows twice.

        Raises:
            ConfigError: It is not the loader itself that asks.
        """
        if not self._is_passing:
            raise ConfigError(
                "the batches of a loader are asked for by something else, such as another "
                "DataLoader that was made of its parts, expected the loader itself to be iterated: "
                "its batches are those of this rank already\n"
                "hint: use the loader as it is, with load_state_dict to begin within an epoch"
            )
        # Torch asks for two iterators per pass and uses the second, so asking must change nothing.
        windows = windows_of(
            self.plan,
            seed=self.seed,
            epoch=self._epoch,
            first_batch=self._first_batch,
            num_parts=self.num_parts,
        )
        return windows if self._read_ahead is None else self._read_ahead(windows)

    def move_to(self, epoch: int, first_batch: int) -> None:
        """Make the pass that begins at a batch of an epoch the upcoming one."""
        self._epoch = epoch
        self._first_batch = first_batch

    @contextmanager
    def passing(
        self, read_ahead: Callable[[Iterator[Window]], Iterator[Any]] | None
    ) -> Iterator[None]:
        """Let iterators be made inside the block, and pass their windows through ``read_ahead``."""
        self._is_passing = True
        self._read_ahead = read_ahead
        try:
            yield
        finally:
            self._is_passing = False
            self._read_ahead = None


def windows_of(
    plan: WindowPlan, *, seed: int, epoch: int, first_batch: int = 0, num_parts: int = 1
) -> Iterator[Window]:
    """Yield the windows of one epoch, from a batch on.

    The parts of a divided population take turns, and go on doing so from one epoch to the next, so
    that all of them are used equally often however many batches an epoch has.

    Args:
        plan: Which positions each batch covers.
        seed: The seed that is put into each window.
        epoch: The number of the epoch.
        first_batch: The batch to begin with.
        num_parts: How many parts take turns.
    """
    for batch in range(first_batch, plan.num_batches):
        start, stop, padding_from = plan.window(epoch, batch)
        part = (epoch * plan.num_batches + batch) % num_parts
        yield Window(epoch, batch, start, stop, padding_from, seed, part)
