"""The legacy iterable dataset: one epoch per iterator, and no worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from torch.utils.data import DataLoader, IterableDataset

from dataset_rt import ConfigError
from tests.torch.loading import flat, number_of

if TYPE_CHECKING:
    from dataset_rt import CachedDataset, CachedSample


def numbers_of_samples(samples: list[CachedSample]) -> list[int]:
    return [number_of(sample) for sample in samples]


def test_each_iterator_continues_the_stream(dataset: CachedDataset) -> None:
    samples = dataset.to_torch_iterable_dataset()
    assert isinstance(samples, IterableDataset)
    loader = DataLoader(samples, batch_size=8, collate_fn=numbers_of_samples)
    passes = [flat(loader) for _ in range(2)]
    assert passes == [dataset.draws(0, 50).tolist(), dataset.draws(50, 100).tolist()]
    assert len(loader) == 7


@pytest.mark.parametrize("context", ["forkserver", "fork"])
def test_workers_are_refused_with_what_to_use(dataset: CachedDataset, context: str) -> None:
    loader = DataLoader(
        dataset.to_torch_iterable_dataset(),
        batch_size=8,
        num_workers=1,
        collate_fn=numbers_of_samples,
        multiprocessing_context=context,
    )
    with pytest.raises(ConfigError, match="num_workers=0 only") as caught:
        next(iter(loader))
    assert "use to_torch_dataloader" in str(caught.value)
