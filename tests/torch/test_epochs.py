"""Passes over a loader: which window of the stream each of them is."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import ConfigError, DatasetRtError
from tests.torch.loading import FAST_WORKERS, flat, number_of, numbers_of

if TYPE_CHECKING:
    from dataset_rt import CachedDataset

NUM_SAMPLES = 12


def make_loader(dataset: CachedDataset, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 5,
            "samples_per_epoch": NUM_SAMPLES,
            "seed": 42,
            "sample_transform_fn": number_of,
            **FAST_WORKERS,
            **options,
        }
    )


def window(dataset: CachedDataset, epoch: int) -> list[int]:
    """Return the numbers of one window of the stream; rows are numbers here."""
    drawn: list[int] = dataset.draws(epoch * NUM_SAMPLES, (epoch + 1) * NUM_SAMPLES).tolist()
    return drawn


@pytest.mark.parametrize("num_workers", [0, 2])
def test_three_passes_are_three_windows_of_one_stream(
    skewed: CachedDataset, num_workers: int
) -> None:
    loader = make_loader(skewed, num_workers=num_workers)
    passes = [flat(numbers_of(loader)) for _ in range(3)]
    assert passes == [window(skewed, epoch) for epoch in range(3)]
    assert passes[0] != passes[1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_broken_off_pass_counts(dataset: CachedDataset, num_workers: int) -> None:
    loader = make_loader(dataset, num_workers=num_workers)
    for _batch in loader:
        break
    assert flat(numbers_of(loader)) == window(dataset, 1)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_set_epoch_chooses_the_next_pass_and_later_ones_count_on(
    dataset: CachedDataset, num_workers: int
) -> None:
    loader = make_loader(dataset, num_workers=num_workers)
    loader.set_epoch(5)
    passes = [flat(numbers_of(loader)) for _ in range(2)]
    loader.set_epoch(0)
    passes.append(flat(numbers_of(loader)))
    assert passes == [window(dataset, epoch) for epoch in (5, 6, 0)]


def test_set_epoch_refuses_what_is_no_epoch(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=0)
    with pytest.raises(ValueError, match="epoch is -1, expected an integer from 0"):
        loader.set_epoch(-1)


def test_without_persistent_workers_passes_repeat_the_first_window_with_one_warning(
    dataset: CachedDataset,
) -> None:
    loader = make_loader(dataset, num_workers=1, persistent_workers=False)
    passes = [flat(numbers_of(loader))]
    with pytest.warns(UserWarning, match="repeats the window of epoch 0") as caught:
        passes.append(flat(numbers_of(loader)))
    passes.append(flat(numbers_of(loader)))
    assert passes == [window(dataset, 0)] * 3
    assert len(caught) == 1
    assert caught[0].filename == numbers_of.__code__.co_filename


def test_set_epoch_makes_fresh_workers_go_on_without_a_warning(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=1, persistent_workers=False)
    passes = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            passes.append(flat(numbers_of(loader)))
        passes.append(flat(numbers_of(loader)))
    assert passes == [window(dataset, epoch) for epoch in (0, 1, 2)]


def test_fresh_workers_give_the_same_window_as_persistent_ones(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=2, persistent_workers=False)
    assert flat(numbers_of(loader)) == window(dataset, 0)


def test_no_workers_and_no_persistence_do_not_repeat(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=0, persistent_workers=False)
    assert [flat(numbers_of(loader)) for _ in range(2)] == [window(dataset, e) for e in (0, 1)]


def test_a_newer_pass_takes_persistent_workers_over(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=1)
    older = iter(loader)
    assert next(older).tolist() == window(dataset, 0)[:5]
    assert flat(numbers_of(loader)) == window(dataset, 1)
    with pytest.raises(DatasetRtError, match="a newer one of the same loader took over"):
        next(older)


def test_iterators_with_fresh_workers_are_independent(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=1, persistent_workers=False)
    loader.set_epoch(0)
    older, newer = iter(loader), iter(loader)
    pairs = list(zip(numbers_of(older), numbers_of(newer), strict=True))
    assert flat(first for first, _ in pairs) == window(dataset, 0)
    assert flat(second for _, second in pairs) == window(dataset, 1)


def test_choosing_an_epoch_does_not_disturb_the_pass_underway(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=0)
    iterator = iter(loader)
    next(iterator)
    loader.set_epoch(4)
    next(iterator)
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 2)
    list(iterator)
    assert loader.state_dict()["epoch"] == 4
    assert flat(numbers_of(loader)) == window(dataset, 4)


def test_an_epoch_past_the_end_of_the_stream_is_refused_at_once(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(samples_per_epoch=10, batch_size=10)
    largest = 922337203685477579
    with pytest.raises(ConfigError, match=f"epoch is {largest + 1}, expected"):
        loader.set_epoch(largest + 1)
    loader.set_epoch(largest)
    assert len(next(iter(loader))) == 10
