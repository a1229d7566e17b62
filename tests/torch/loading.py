"""Small functions that tests of the loader share; worker processes import them too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataset_rt import CachedSample

FAST_WORKERS: dict[str, Any] = {"multiprocessing_context": "forkserver"}
"""Options with which workers start in a fraction of a second."""


def number_of(sample: CachedSample) -> int:
    """Return the number of a record, checked against its payload."""
    number: int = sample.metadata["number"]
    assert sample.data == number.to_bytes(4, "little") * (number % 5 + 1)
    return number


def worker_of(_sample: CachedSample) -> int:
    """Return the number of the worker that runs this, -1 in the main process."""
    worker = get_worker_info()
    return -1 if worker is None else worker.id


def numbers_of(batches: Iterable[Any]) -> list[list[int]]:
    """Return the numbers of each batch of a loader whose transform is `number_of`."""
    return [batch.tolist() for batch in batches]


def flat(batches: Iterable[list[int]]) -> list[int]:
    """Return the elements of all batches."""
    return [number for batch in batches for number in batch]
