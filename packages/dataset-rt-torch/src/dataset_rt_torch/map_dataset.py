"""A map-style torch dataset over the active rows, for people with a sampler of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch.utils.data import Dataset

from dataset_rt import arguments
from dataset_rt.exceptions import PositionError
from dataset_rt.records import CachedSample
from dataset_rt_torch.snapshot import Snapshot
from dataset_rt_torch.worker import OpenSnapshot
from dataset_rt_torch.workers import automatic_native_num_workers, shared_parallelism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataset_rt.dataset import CachedDataset


class CachedMapDataset(Dataset[CachedSample]):
    """The active rows of a dataset as it was when this object was made, by row number.

    It works with any sampler and any number of workers of torch's own DataLoader, and reads each
    batch in one native call. Weights and order are the sampler's business here.

    Example:
        >>> from torch.utils.data import DataLoader, RandomSampler
        >>> import tempfile
        >>> from dataset_rt import CacheInput, DatasetRuntime
        >>> class Squares:
        ...     name = "squares"
        ...
        ...     def __iter__(self):
        ...         for number in range(10):
        ...             yield CacheInput(str(number**2).encode(), {"number": number})
        >>> runtime = DatasetRuntime(num_workers=1)
        >>> with tempfile.TemporaryDirectory() as base:
        ...     rows = runtime.from_cache_sources(Squares(), base).dataset.to_torch_dataset()
        ...     sampler = RandomSampler(rows)
        ...     loader = DataLoader(rows, batch_size=5, sampler=sampler, collate_fn=list)
        ...     sorted(int(sample.data) for samples in loader for sample in samples)
        [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    """

    def __init__(self, opened: OpenSnapshot, num_rows: int) -> None:
        """Describe what to read; `make_map_dataset` exports it."""
        self._opened = opened
        self._num_rows = num_rows

    def __len__(self) -> int:
        """Return the number of active rows."""
        return self._num_rows

    def __getitem__(self, row: int) -> CachedSample:
        """Return the sample of one row; negative numbers count from the end.

        Raises:
            PositionError: There is no such row.
        """
        return self._opened.parts[0].sample_of_row(self._checked(row))

    def __getitems__(self, rows: Sequence[int]) -> list[CachedSample]:
        """Return the samples of many rows, read in one call.

        Raises:
            PositionError: One of the rows does not exist.
        """
        checked = np.fromiter((self._checked(row) for row in rows), np.int64, len(rows))
        return self._opened.parts[0].batch_of_rows(checked).samples()

    def _checked(self, row: int) -> int:
        number = arguments.integer("row", row, minimum=-arguments.MAX_INT64)
        if not -self._num_rows <= number < self._num_rows:
            raise PositionError(
                f"row {number} does not exist, expected {-self._num_rows} to {self._num_rows - 1}"
            )
        return number + self._num_rows if number < 0 else number


def make_map_dataset(dataset: CachedDataset) -> CachedMapDataset:
    """Build the map-style dataset that ``CachedDataset.to_torch_dataset`` returns.

    Args:
        dataset: The dataset; later edits of it do not change the result.
    """
    native = dataset._native  # noqa: SLF001
    snapshot = Snapshot.export(native, None, seed=0, shuffle=False, replacement=True)
    num_threads = automatic_native_num_workers(shared_parallelism(), 0)
    return CachedMapDataset(OpenSnapshot(snapshot, num_threads), native.num_rows)
