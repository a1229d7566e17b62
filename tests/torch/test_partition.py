"""``worker_partition="split"``: consumers that draw by weight from parts of their own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from dataset_rt import ConfigError, StateMismatchError
from tests.torch.loading import FAST_WORKERS, flat, number_of, numbers_of

if TYPE_CHECKING:
    from dataset_rt import CachedDataset, CachedSample

# Context "fork" starts workers at once, and this module starts many.
FORKED: dict[str, Any] = {"multiprocessing_context": "fork"}


def make_loader(dataset: CachedDataset, num_workers: int = 0, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 4,
            "samples_per_epoch": 20,
            "seed": 42,
            "worker_partition": "split",
            "sample_transform_fn": number_of,
            "num_workers": num_workers,
            **FORKED,
            **options,
        }
    )


def rows_of_ranks(dataset: CachedDataset, world_size: int, **options: Any) -> list[list[int]]:
    """Return what each rank draws in one epoch."""
    return [
        flat(numbers_of(make_loader(dataset, rank=rank, world_size=world_size, **options)))
        for rank in range(world_size)
    ]


def test_ranks_draw_from_disjoint_parts_of_equal_size(dataset: CachedDataset) -> None:
    drawn = rows_of_ranks(dataset, 3, samples_per_epoch=3000, batch_size=100)
    parts = [set(rows) for rows in drawn]
    assert sorted(len(part) for part in parts) == [16, 17, 17]
    assert set.union(*parts) == set(range(50))
    assert parts[0] != set(range(16)) | {16}


def test_workers_draw_from_disjoint_parts_and_take_turns(dataset: CachedDataset) -> None:
    def with_worker(sample: CachedSample) -> tuple[int, int]:
        from torch.utils.data import get_worker_info  # noqa: PLC0415

        worker = get_worker_info()
        assert worker is not None
        return number_of(sample), worker.id

    loader = make_loader(
        dataset, 2, samples_per_epoch=800, batch_size=50, sample_transform_fn=with_worker
    )
    batches = [(numbers.tolist(), workers.tolist()) for numbers, workers in loader]
    parts: list[set[int]] = [set(), set()]
    for numbers, workers in batches:
        assert len(set(workers)) == 1
        parts[workers[0]] |= set(numbers)
    assert [len(part) for part in parts] == [25, 25]
    assert parts[0] | parts[1] == set(range(50))


def test_weights_hold_within_a_part(skewed: CachedDataset) -> None:
    drawn = rows_of_ranks(skewed, 2, samples_per_epoch=40_000, batch_size=1000)
    assert [len(rows) for rows in drawn] == [20_000, 20_000]
    assert 0 not in flat(drawn), "a weight of 0 is never drawn"
    for rows in drawn:
        numbers, counts = np.unique(rows, return_counts=True)
        expected = numbers / numbers.sum() * len(rows)
        assert stats.chisquare(counts, expected).pvalue > 0.001


def test_each_part_has_equally_many_draws_whatever_it_weighs(dataset: CachedDataset) -> None:
    dataset.set_weights([50.0] + [1.0] * 49)
    drawn = flat(rows_of_ranks(dataset, 2, samples_per_epoch=20_000, batch_size=1000))
    # Of the population the row has 50 of 99; of its part, 50 of 74, and that is half of the draws.
    assert drawn.count(0) / len(drawn) == pytest.approx(50 / 74 / 2, abs=0.02)


def test_windows_and_budgets_are_those_of_the_undivided_plan(dataset: CachedDataset) -> None:
    def positions(worker_partition: str, rank: int, num_workers: int) -> list[list[int]]:
        loader = make_loader(
            dataset,
            num_workers,
            worker_partition=worker_partition,
            rank=rank,
            world_size=2,
            sample_transform_fn=None,
            batch_transform_fn=lambda batch: batch.positions.tolist(),
            samples_per_epoch=18,
        )
        return [*loader, *loader]

    for rank, num_workers in itertools.product((0, 1), (0, 2)):
        divided = positions("split", rank, num_workers)
        assert divided == positions("replicate", rank, num_workers)


def test_parts_are_used_equally_often_where_epochs_have_an_odd_number_of_batches(
    dataset: CachedDataset,
) -> None:
    loader = make_loader(dataset, 2, samples_per_epoch=60, batch_size=20)
    whole = flat(numbers_of(make_loader(dataset, 2, samples_per_epoch=2000, batch_size=1000)))
    first_part = set(whole[:1000])
    epochs = [numbers_of(loader) for _ in range(2)]
    is_first = [[set(batch) <= first_part for batch in batches] for batches in epochs]
    assert is_first == [[True, False, True], [False, True, False]]


def test_one_consumer_has_the_whole_population(dataset: CachedDataset) -> None:
    drawn = flat(numbers_of(make_loader(dataset)))
    assert drawn == dataset.draws(0, 20).tolist()


@pytest.mark.parametrize("options", [{"shuffle": False}, {"replacement": False}])
def test_other_orders_give_each_row_to_one_consumer_of_any_number(
    dataset: CachedDataset, options: dict[str, Any]
) -> None:
    drawn = [
        flat(
            numbers_of(
                make_loader(
                    dataset,
                    num_workers,
                    rank=rank,
                    world_size=2,
                    samples_per_epoch=50,
                    batch_size=5,
                    **options,
                )
            )
        )
        for num_workers in (0, 2)
        for rank in range(2)
    ]
    assert sorted(drawn[0] + drawn[1]) == list(range(50))
    assert drawn[:2] == drawn[2:]


def test_the_seed_decides_the_parts(dataset: CachedDataset) -> None:
    parts = [
        set(rows_of_ranks(dataset, 2, samples_per_epoch=2000, batch_size=1000, seed=seed)[0])
        for seed in (1, 1, 2)
    ]
    assert parts[0] == parts[1] != parts[2]


def test_resume_at_every_batch_continues_exactly(skewed: CachedDataset) -> None:
    whole = make_loader(skewed, 2)
    epochs = [numbers_of(whole) for _ in range(4)]
    for batch in range(len(whole)):
        saving = make_loader(skewed, 2)
        numbers_of(saving)
        iterator = iter(saving)
        begun = [next(iterator).tolist() for _ in range(batch)]
        resumed = make_loader(skewed, 2)
        resumed.load_state_dict(saving.state_dict())
        assert begun + numbers_of(resumed) == epochs[1]
        assert [numbers_of(resumed) for _ in range(2)] == epochs[2:]


def test_resume_with_other_consumers_is_refused(dataset: CachedDataset) -> None:
    state = make_loader(dataset, 2, samples_per_epoch=24).state_dict()
    for other in (
        make_loader(dataset, 3, samples_per_epoch=24),
        make_loader(dataset, 2, samples_per_epoch=24, worker_partition="replicate"),
    ):
        with pytest.raises(StateMismatchError, match="num_parts: the state has 2, the loader has"):
            other.load_state_dict(state)
    as_ranks = make_loader(dataset, 1, samples_per_epoch=24, batch_size=2, rank=0, world_size=2)
    with pytest.raises(StateMismatchError, match="world_size: the state has 1, the loader has 2"):
        as_ranks.load_state_dict(state)


def test_a_random_seed_is_taken_over_after_an_edit_of_the_dataset(dataset: CachedDataset) -> None:
    saving = make_loader(dataset, 2, seed="random")
    resumed = make_loader(dataset, 2, seed="random")
    dataset.set_weights([1.0] + [0.0] * 49)
    resumed.load_state_dict(saving.state_dict())
    assert numbers_of(resumed) == numbers_of(saving)


def test_more_consumers_than_rows_are_refused(skewed: CachedDataset, tmp_path: Any) -> None:
    skewed.set_weights([0.0, 1.0, 2.0] + [0.0] * 47)
    with pytest.raises(
        ConfigError, match=r"'split' with 3 consumers, expected at most .* can be drawn: 2"
    ):
        make_loader(skewed, rank=1, world_size=3, work_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_a_batch_are_those_of_the_whole_table(dataset: CachedDataset) -> None:
    loader = make_loader(
        dataset,
        1,
        rank=1,
        world_size=2,
        sample_transform_fn=None,
        batch_transform_fn=lambda batch: (batch.rows.tolist(), batch.metadata["number"].tolist()),
        **FAST_WORKERS,
    )
    for rows, numbers in loader:
        assert rows == numbers
