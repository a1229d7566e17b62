"""Saving and resuming a loader at any batch, and refusing what does not fit."""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dataset_rt import StateMismatchError
from tests.torch.loading import FAST_WORKERS, flat, number_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataset_rt import CachedDataset

# Starts workers at once, for a test that starts many.
FORKED: dict[str, Any] = {"multiprocessing_context": "fork"}
ORDERS: dict[str, dict[str, Any]] = {
    "weighted": {"shuffle": True},
    "permutation": {"shuffle": True, "replacement": False},
    "sequential": {"shuffle": False},
}


def make_loader(dataset: CachedDataset, num_workers: int = 0, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 4,
            "samples_per_epoch": 18,
            "seed": 42,
            "sample_transform_fn": number_of,
            "num_workers": num_workers,
            **FAST_WORKERS,
            **options,
        }
    )


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    return ORDERS[request.param]


def test_resume_at_every_batch_continues_exactly(
    dataset: CachedDataset, order: dict[str, Any]
) -> None:
    whole = make_loader(dataset, **order)
    epochs = [numbers_of(whole) for _ in range(4)]
    batches = itertools.cycle(range(len(whole) + 1))
    for saving_workers, resuming_workers in itertools.product(range(4), repeat=2):
        batch = next(batches)
        saving = make_loader(dataset, saving_workers, **FORKED, **order)
        saving.set_epoch(1)
        iterator = iter(saving)
        begun = [next(iterator).tolist() for _ in range(batch)]
        state = saving.state_dict()
        resumed = make_loader(dataset, resuming_workers, **FORKED, **order)
        resumed.load_state_dict(state)
        if batch < len(whole):
            assert begun + numbers_of(resumed) == epochs[1]
        assert numbers_of(resumed) == epochs[2]
        assert numbers_of(resumed) == epochs[3]


def test_prefetched_batches_do_not_count(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, 2, prefetch_factor=2)
    iterator = iter(loader)
    next(iterator)
    # Workers have been given all five batches by now, and the caller has one.
    assert loader.state_dict()["batch"] == 1
    assert loader.state_dict()["global_samples"] == 4


def test_state_counts_samples_over_all_ranks(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, rank=1, world_size=2, samples_per_epoch=16)
    next(iter(loader))
    state = loader.state_dict()
    assert state["global_samples"] == 8
    assert (state["world_size"], state["batch_size"], state["global_batch_size"]) == (2, 4, 8)


def test_a_new_loader_is_at_the_start(dataset: CachedDataset) -> None:
    state = make_loader(dataset).state_dict()
    assert (state["epoch"], state["batch"], state["global_samples"]) == (0, 0, 0)


def test_state_after_the_last_batch_is_the_start_of_the_next_epoch(dataset: CachedDataset) -> None:
    loader = make_loader(dataset)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    # The loop has not seen the end of the iterator yet.
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 0)
    assert state["global_samples"] == 18


def test_state_after_a_broken_off_pass_continues_that_pass(dataset: CachedDataset) -> None:
    loader = make_loader(dataset)
    first = numbers_of(loader)
    second = []
    for batch in loader:
        second.append(batch.tolist())
        if len(second) == 2:
            break
    resumed = make_loader(dataset)
    resumed.load_state_dict(loader.state_dict())
    second += numbers_of(resumed)
    assert flat(first + second) == dataset.draws(0, 36).tolist()


def test_two_saves_in_one_epoch_resume_each_at_its_place(dataset: CachedDataset) -> None:
    loader = make_loader(dataset)
    iterator = iter(loader)
    next(iterator)
    early = loader.state_dict()
    next(iterator)
    late = loader.state_dict()
    resumed = make_loader(dataset)
    resumed.load_state_dict(early)
    from_early = numbers_of(resumed)
    resumed.load_state_dict(late)
    assert from_early[1:] == numbers_of(resumed)


def test_loading_into_a_running_loader_moves_its_next_pass(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, 1)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    numbers_of(iterator)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert flat(numbers_of(loader)) == dataset.draws(4, 18).tolist()


def test_resume_with_another_rank_count_at_the_same_global_batch(dataset: CachedDataset) -> None:
    options: dict[str, Any] = {"samples_per_epoch": 24, "batch_size": 12}
    alone = make_loader(dataset, **options)
    next(iter(alone))
    state = alone.state_dict()
    ranks = []
    for rank in range(3):
        loader = make_loader(dataset, samples_per_epoch=24, batch_size=4, rank=rank, world_size=3)
        loader.load_state_dict(state)
        ranks.append(numbers_of(loader))
    assert [len(batches) for batches in ranks] == [1, 1, 1]
    assert flat(batches[0] for batches in ranks) == dataset.draws(12, 24).tolist()


def test_taking_over_a_seed_writes_nothing(dataset: CachedDataset, tmp_path: Path) -> None:
    saving = make_loader(dataset, seed="random")
    resumed = make_loader(dataset, seed="random", work_dir=tmp_path)
    before = sorted(tmp_path.rglob("*"))
    resumed.load_state_dict(saving.state_dict())
    batches = [batch.tolist() for batch in resumed]
    assert batches == [batch.tolist() for batch in saving]
    assert sorted(tmp_path.rglob("*")) == before
    assert before


def test_random_seed_is_taken_over(dataset: CachedDataset) -> None:
    saving = make_loader(dataset, seed="random")
    iterator = iter(saving)
    next(iterator)
    state = saving.state_dict()
    rest = numbers_of(iterator)
    following = numbers_of(saving)
    resumed = make_loader(dataset, 1, seed="random")
    numbers_of(resumed)
    resumed.load_state_dict(state)
    assert resumed.seed == saving.seed
    assert numbers_of(resumed) == rest
    assert numbers_of(resumed) == following


def test_fresh_workers_resume_and_then_repeat_the_same_window(dataset: CachedDataset) -> None:
    options: dict[str, Any] = {"persistent_workers": False}
    saving = make_loader(dataset, 1, **options)
    window = numbers_of(saving)
    assert saving.state_dict()["epoch"] == 0
    saving.set_epoch(0)
    resumed = make_loader(dataset, 1, **options)
    resumed.load_state_dict({**saving.state_dict(), "counts_epochs": False, "batch": 3})
    assert numbers_of(resumed) == window[3:]
    with pytest.warns(UserWarning, match="repeats the window of epoch 0"):
        assert numbers_of(resumed) == window


def test_fresh_workers_that_were_told_epochs_count_on_after_resume(dataset: CachedDataset) -> None:
    options: dict[str, Any] = {"persistent_workers": False}
    saving = make_loader(dataset, 1, **options)
    saving.set_epoch(3)
    next(iter(saving))
    resumed = make_loader(dataset, 1, **options)
    resumed.load_state_dict(saving.state_dict())
    passes = [flat(numbers_of(resumed)) for _ in range(2)]
    assert passes == [dataset.draws(58, 72).tolist(), dataset.draws(72, 90).tolist()]


def test_state_survives_a_checkpoint_that_only_loads_plain_types(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, seed=2**64 - 1)
    next(iter(loader))
    file = io.BytesIO()
    torch.save(loader.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert state == loader.state_dict()
    make_loader(dataset, seed=2**64 - 1).load_state_dict(state)


def test_state_needs_batches_in_order(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, 1, dataloader_kwargs={"in_order": False})
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(StateMismatchError, match="in_order=False"):
        loader.state_dict()
    numbers_of(iterator)
    assert loader.state_dict()["epoch"] == 1


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"seed": 1}, "seed: the state has 42, the loader has 1"),
        ({"shuffle": False}, "order: the state has 'weighted', the loader has 'sequential'"),
        ({"samples_per_epoch": 20}, "samples_per_epoch: the state has 18, the loader has 20"),
        ({"batch_size": 5}, "global_batch_size: the state has 4, the loader has 5"),
        ({"drop_last": True}, "drop_last: the state has False, the loader has True"),
    ],
)
def test_a_state_of_another_stream_is_refused(
    dataset: CachedDataset, options: dict[str, Any], difference: str
) -> None:
    state = make_loader(dataset).state_dict()
    loader = make_loader(dataset, **options)
    with pytest.raises(StateMismatchError) as caught:
        loader.load_state_dict(state)
    assert difference in str(caught.value)
    assert loader.state_dict()["batch"] == 0


def test_every_difference_is_listed(dataset: CachedDataset) -> None:
    state = make_loader(dataset).state_dict()
    with pytest.raises(StateMismatchError) as caught:
        make_loader(dataset, seed=1, batch_size=2).load_state_dict(state)
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == ["global_batch_size", "seed"]


def test_a_state_of_another_table_is_refused(
    dataset: CachedDataset, skewed: CachedDataset, open_numbers: Callable[..., CachedDataset]
) -> None:
    state = make_loader(dataset).state_dict()
    with pytest.raises(StateMismatchError, match="fingerprint of contents, rows and weights"):
        make_loader(skewed).load_state_dict(state)
    with pytest.raises(
        StateMismatchError, match=r"'numbers-50' \(50 samples\), the loader has 'numbers-20'"
    ):
        make_loader(open_numbers(20)).load_state_dict(state)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, "the state is a NoneType"),
        ({}, "version is missing"),
        ({"version": 2}, "the state has version 2, expected 1"),
        ({"version": 0}, "the state has version 0, expected 1"),
    ],
)
def test_what_is_no_state_is_refused(dataset: CachedDataset, state: Any, reason: str) -> None:
    with pytest.raises(StateMismatchError, match=reason):
        make_loader(dataset).load_state_dict(state)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("batch", "3", "batch is '3', expected int"),
        ("batch", True, "batch is True, expected int"),
        ("epoch", -1, "epoch is -1, expected 0 to 9223372036854775807"),
        ("epoch", 2**70, "epoch is 1180591620717411303424, expected 0 to"),
        ("seed", 2**64, "seed is 18446744073709551616, expected 0 to"),
        ("world_size", 3, "expected the product of batch_size"),
        ("batch", 6, "the state has batch 6, expected 0 to 5"),
        ("caches", None, "caches is None, expected list"),
    ],
)
def test_a_tampered_state_is_refused(
    dataset: CachedDataset, field: str, value: Any, reason: str
) -> None:
    loader = make_loader(dataset)
    state = {**loader.state_dict(), field: value}
    with pytest.raises(StateMismatchError, match=reason):
        loader.load_state_dict(state)
