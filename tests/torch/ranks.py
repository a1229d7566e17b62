"""Simulated ranks: their loaders in one process, and the global batches that they make together."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tests.torch.loading import number_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataset_rt import CachedDataset


def make_loaders(dataset: CachedDataset, world_size: int, **options: Any) -> list[Any]:
    """Build the loaders of all ranks, silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            dataset.to_torch_dataloader(
                **{
                    "seed": 42,
                    "sample_transform_fn": number_of,
                    "num_workers": 0,
                    "rank": rank,
                    "world_size": world_size,
                    **options,
                }
            )
            for rank in range(world_size)
        ]


def global_batches(loaders: Iterable[Any]) -> list[list[int]]:
    """Return the next epoch of all ranks: their batches one after the other, in each step."""
    together = zip(*map(numbers_of, loaders), strict=True)
    return [[number for batch in batches for number in batch] for batches in together]
