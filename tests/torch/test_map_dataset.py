"""The map-style dataset over active rows, under torch's own samplers and workers."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler

from dataset_rt import CachedSample, PositionError
from tests.torch.loading import number_of

if TYPE_CHECKING:
    from dataset_rt import CachedDataset


def numbers_of_samples(samples: list[CachedSample]) -> list[int]:
    return [number_of(sample) for sample in samples]


def test_it_is_a_sequence_of_the_active_rows(dataset: CachedDataset) -> None:
    rows: Any = dataset.to_torch_dataset()
    assert issubclass(type(rows), torch.utils.data.Dataset)
    assert len(rows) == 50
    assert number_of(rows[7]) == 7
    assert number_of(rows[-1]) == 49
    assert numbers_of_samples(rows.__getitems__([3, 1, 3])) == [3, 1, 3]


@pytest.mark.parametrize("row", [50, -51])
def test_a_row_that_does_not_exist_is_refused(dataset: CachedDataset, row: int) -> None:
    rows: Any = dataset.to_torch_dataset()
    with pytest.raises(PositionError, match=f"row {row} does not exist, expected -50 to 49"):
        rows[row]
    with pytest.raises(IndexError):
        rows.__getitems__([0, row])


def test_it_follows_the_table_of_its_construction(dataset: CachedDataset) -> None:
    table = dataset.get_metadata()
    dataset.update_metadata(table[[5, 9, 5]])
    rows: Any = dataset.to_torch_dataset()
    dataset.update_metadata(table)
    assert numbers_of_samples([rows[row] for row in range(len(rows))]) == [5, 9, 5]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchs_random_sampler_covers_every_row_once(
    dataset: CachedDataset, num_workers: int
) -> None:
    rows: Any = dataset.to_torch_dataset()
    loader = DataLoader(
        rows,
        batch_size=8,
        sampler=RandomSampler(rows),
        collate_fn=numbers_of_samples,
        num_workers=num_workers,
        multiprocessing_context="forkserver" if num_workers else None,
    )
    numbers = [number for batch in loader for number in batch]
    assert sorted(numbers) == list(range(50))
    assert numbers != list(range(50))


def test_torchs_weighted_sampler_works(dataset: CachedDataset) -> None:
    sampler = WeightedRandomSampler([0.0] * 49 + [1.0], num_samples=10)
    loader = DataLoader(
        dataset.to_torch_dataset(), batch_size=5, sampler=sampler, collate_fn=numbers_of_samples
    )
    assert list(loader) == [[49] * 5] * 2


def test_rows_of_weight_zero_are_there(skewed: CachedDataset) -> None:
    assert number_of(skewed.to_torch_dataset()[0]) == 0


def test_it_pickles_by_its_path(dataset: CachedDataset) -> None:
    rows: Any = dataset.to_torch_dataset()
    pickled = pickle.dumps(rows)
    assert len(pickled) < 4096
    assert number_of(pickle.loads(pickled)[3]) == 3
