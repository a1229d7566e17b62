"""The global plan: which draws each rank, batch and epoch holds, over a grid of all that varies."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from tests.torch.loading import flat, numbers_of
from tests.torch.ranks import global_batches, make_loaders

if TYPE_CHECKING:
    from dataset_rt import CachedDataset

ORDERS: dict[str, dict[str, Any]] = {
    "weighted": {},
    "permutation": {"replacement": False},
    "sequential": {"shuffle": False},
}
FORKED: dict[str, Any] = {"multiprocessing_context": "fork"}


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 8, 64])
@pytest.mark.parametrize("samples_per_epoch", [1, 2, 3, 7, 64, 1000])
def test_ranks_together_load_each_window(
    skewed: CachedDataset,
    samples_per_epoch: int,
    batch_size: int,
    drop_last: bool,
    world_size: int,
) -> None:
    loaders = make_loaders(
        skewed,
        world_size,
        batch_size=batch_size,
        drop_last=drop_last,
        samples_per_epoch=samples_per_epoch,
    )
    if drop_last:
        num_samples = batch_size * (samples_per_epoch // (batch_size * world_size))
    else:
        num_samples = math.ceil(samples_per_epoch / world_size)
    assert {len(loader) for loader in loaders} == {math.ceil(num_samples / batch_size)}
    for epoch in range(2):
        batches = [numbers_of(loader) for loader in loaders]
        assert [len(flat(own)) for own in batches] == [num_samples] * world_size
        assert all(len(batch) == batch_size for own in batches for batch in own[:-1])
        # A global batch is the ranks' batches one after the other; padding comes last.
        loaded = flat(flat(together) for together in zip(*batches, strict=True))
        start = epoch * samples_per_epoch
        assert loaded == skewed.draws(start, start + num_samples * world_size).tolist()


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("samples_per_epoch", "batch_size", "world_size", "drop_last"),
    [(1, 8, 1, False), (7, 3, 2, False), (64, 8, 3, True), (64, 3, 3, False), (1000, 64, 2, True)],
)
def test_workers_change_nothing(  # noqa: PLR0917
    skewed: CachedDataset,
    num_workers: int,
    samples_per_epoch: int,
    batch_size: int,
    world_size: int,
    drop_last: bool,
) -> None:
    options: dict[str, Any] = {
        "samples_per_epoch": samples_per_epoch,
        "batch_size": batch_size,
        "drop_last": drop_last,
    }
    *_, alone = make_loaders(skewed, world_size, **options)
    *_, helped = make_loaders(skewed, world_size, num_workers=num_workers, **options, **FORKED)
    assert len(helped) == len(alone)
    for _epoch in range(2):
        assert numbers_of(helped) == numbers_of(alone)


@pytest.mark.parametrize("drop_last", [False, True])
def test_warnings_come_where_counts_differ_and_nowhere_else(
    dataset: CachedDataset, drop_last: bool
) -> None:
    for samples_per_epoch, batch_size, world_size in itertools.product(
        (1, 2, 3, 7, 64), (1, 3, 8), (1, 2, 3)
    ):
        global_batch_size = batch_size * world_size
        if drop_last:
            differs = world_size > 1 and samples_per_epoch % global_batch_size > 0
        else:
            differs = samples_per_epoch % world_size > 0
        is_empty = drop_last and samples_per_epoch < global_batch_size
        for rank in range(world_size):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                dataset.to_torch_dataloader(
                    samples_per_epoch=samples_per_epoch,
                    batch_size=batch_size,
                    drop_last=drop_last,
                    rank=rank,
                    world_size=world_size,
                    seed=1,
                    num_workers=0,
                )
            assert len(caught) == int(rank == 0 and (differs or is_empty))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_global_batches_are_the_same_for_any_world_size(
    dataset: CachedDataset, skewed: CachedDataset, order: str, num_workers: int
) -> None:
    drawn_from = skewed if order == "weighted" else dataset

    def epochs(world_size: int, num_workers: int) -> list[list[list[int]]]:
        loaders = make_loaders(
            drawn_from,
            world_size,
            batch_size=12 // world_size,
            samples_per_epoch=48,
            num_workers=num_workers,
            **ORDERS[order],
            **FORKED,
        )
        return [global_batches(loaders) for _ in range(2)]

    expected = epochs(1, 0)
    assert [len(batch) for batch in expected[0]] == [12] * 4
    for world_size in (1, 2, 3, 4):
        assert epochs(world_size, num_workers) == expected


@pytest.mark.parametrize("order", ORDERS)
def test_resume_with_another_world_size_at_every_batch(
    dataset: CachedDataset, skewed: CachedDataset, order: str
) -> None:
    drawn_from = skewed if order == "weighted" else dataset
    # Does not divide by 12: the last global batch is divided otherwise for each world size.
    samples_per_epoch = 50

    def make(world_size: int) -> list[Any]:
        return make_loaders(
            drawn_from,
            world_size,
            batch_size=12 // world_size,
            samples_per_epoch=samples_per_epoch,
            **ORDERS[order],
        )

    def window(epoch: int) -> list[int]:
        reader = make(1)[0]
        reader.set_epoch(epoch)
        return flat(numbers_of(reader))

    windows = [window(epoch) for epoch in range(4)]
    for before, after in itertools.permutations((1, 2, 3, 4), 2):
        for batch in range(5):
            saving = make(before)[-1]
            saving.set_epoch(1)
            iterator = iter(saving)
            for _ in range(batch):
                next(iterator)
            state = saving.state_dict()
            resumed = make(after)
            for loader in resumed:
                loader.load_state_dict(state)
            begun = batch * 12
            for expected in (windows[1][begun:], windows[2], windows[3]):
                # What comes after the window is padding.
                assert flat(global_batches(resumed))[: len(expected)] == expected


def test_the_union_over_ranks_follows_the_weights(skewed: CachedDataset) -> None:
    loaders = make_loaders(skewed, 3, batch_size=500, samples_per_epoch=30_000)
    counts = np.bincount(flat(global_batches(loaders)), minlength=50)
    assert counts[0] == 0
    weights = np.arange(1, 50)
    expected = weights / weights.sum() * counts.sum()
    assert stats.chisquare(counts[1:], expected).pvalue > 0.001
    of_one_rank = np.bincount(flat(numbers_of(loaders[1])), minlength=50)[1:]
    expected = weights / weights.sum() * of_one_rank.sum()
    assert stats.chisquare(of_one_rank, expected).pvalue > 0.001
