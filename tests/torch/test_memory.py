"""Memory of loading workers: what they are sent, and what they keep to themselves."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.torch.loading import FAST_WORKERS, number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataset_rt import CachedDataset

NUM_ROWS = 2_000_000
MEBIBYTE = 1 << 20


def private_bytes(process_id: int) -> int:
    """Return the memory of a process that it shares with no other one."""
    fields = (
        line.split() for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    )
    private = ("Private_Clean:", "Private_Dirty:")
    return sum(int(size) * 1024 for name, size, *_ in fields if name in private)


def measure(dataset: CachedDataset) -> tuple[int, list[int]]:
    """Return the bytes sent to a worker, and the private memory of two workers after an epoch."""
    before = set(multiprocessing.active_children())
    loader: Any = dataset.to_torch_dataloader(
        batch_size=256,
        samples_per_epoch=20_480,
        seed=1,
        sample_transform_fn=number_of,
        num_workers=2,
        **FAST_WORKERS,
    )
    assert sum(len(batch) for batch in loader) == 20_480
    workers = set(multiprocessing.active_children()) - before
    sent = len(pickle.dumps((loader.dataset, loader.collate_fn)))
    return sent, [private_bytes(worker.pid) for worker in workers if worker.pid is not None]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells these sizes")
def test_workers_of_two_million_weighted_rows_are_as_small_as_those_of_a_thousand(
    open_numbers: Callable[..., CachedDataset],
) -> None:
    small = open_numbers(1_000)
    small.set_weights(np.arange(1.0, 1_001.0))
    _, of_small = measure(small)

    large = open_numbers(50_000)
    table = large.get_metadata()
    large.update_metadata(table[np.arange(NUM_ROWS) % len(table)])
    large.set_weights(np.arange(1.0, NUM_ROWS + 1.0))
    sent, of_large = measure(large)

    assert sent < 64 << 10
    assert len(of_small) == len(of_large) == 2
    assert max(of_large) < min(of_small) + 15 * MEBIBYTE
