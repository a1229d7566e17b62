"""Divides the population among consumers, each of which draws by weight from a part of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dataset_rt import _core
from dataset_rt.exceptions import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

_WEIGHTS_FILE = "population-weights.npy"


@dataclass(frozen=True, slots=True)
class Partition:
    """Which parts the population is divided into, and which of them belong to this rank.

    The rows that can be drawn are put into one seeded order, that of a shuffled pass without
    replacement, and dealt to the parts in turn. So parts are disjoint, hold equally many rows but
    for one, and follow from seed, table and the number of parts alone.

    Attributes:
        rank: The rank whose batches are loaded.
        world_size: How many ranks there are.
        parts_per_rank: Consumers of each rank.
    """

    rank: int
    world_size: int
    parts_per_rank: int

    @property
    def num_parts(self) -> int:
        """Parts over all ranks."""
        return self.world_size * self.parts_per_rank

    def number_of(self, part: int) -> int:
        """Return the number, over all ranks, of one of this rank's parts."""
        return self.rank * self.parts_per_rank + part


def keep_weights(directory: str, weights: npt.NDArray[np.float64]) -> None:
    """Leave the weights of the population in its snapshot, which itself only keeps draws."""
    np.save(Path(directory) / _WEIGHTS_FILE, weights)


def kept_weights(directory: str) -> npt.NDArray[np.float64]:
    """Return what `keep_weights` left in a snapshot."""
    weights: npt.NDArray[np.float64] = np.load(Path(directory) / _WEIGHTS_FILE)
    return weights


def weights_of(native: _core.Dataset) -> npt.NDArray[np.float64]:
    """Return the weight of each active row of a dataset."""
    if not native.table_is_edited:
        return np.ones(native.num_rows)
    weights, _ = native.metadata_table().column("weight")
    return np.asarray(weights, np.float64)


class Population:
    """The rows that can be drawn, dealt to parts in one seeded order."""

    def __init__(self, directory: str, num_parts: int, *, seed: int) -> None:
        """Open the snapshot of a whole population and deal its rows.

        Args:
            directory: The snapshot, in which `keep_weights` left its weights.
            num_parts: How many parts to deal to.
            seed: The seed of the order.

        Raises:
            ConfigError: There are more parts than rows that can be drawn.
        """
        self._weights = kept_weights(directory)
        self._native = _core.Dataset.open_snapshot(directory, _core.ThreadPool(1))
        self._num_parts = num_parts
        self._order = self._seeded_order(directory, seed)

    def rows_of(self, part: int) -> npt.NDArray[np.int64]:
        """Return the rows of a part."""
        return self._order[part :: self._num_parts]

    def restricted_to(self, part: int) -> _core.Dataset:
        """Return the dataset with no other rows to draw than those of a part.

        It is one dataset for all parts; asking for the next changes it.
        """
        rows = self.rows_of(part)
        weights = np.zeros_like(self._weights)
        weights[rows] = self._weights[rows]
        self._native.set_weights(weights)
        return self._native

    def _seeded_order(self, directory: str, seed: int) -> npt.NDArray[np.int64]:
        can_be_drawn = self._weights > 0
        num_rows = int(np.count_nonzero(can_be_drawn))
        if num_rows < self._num_parts:
            raise ConfigError(
                f"worker_partition is 'split' with {self._num_parts} consumers, expected at most "
                f"as many as there are rows that can be drawn: {num_rows}\n"
                "hint: use fewer workers, or worker_partition='replicate'"
            )
        # Equal weights and zeros act as a filter of a pass without replacement.
        self._native.set_weights(can_be_drawn.astype(np.float64))
        with tempfile.TemporaryDirectory(prefix="order-", dir=directory) as passes:
            self._native.export_snapshot(passes, seed=seed, shuffle=True, replacement=False)
            opened = _core.Dataset.open_snapshot(passes, _core.ThreadPool(1))
            return opened.draws(0, num_rows)
