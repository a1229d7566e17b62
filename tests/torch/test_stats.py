"""``loader.stats()``: which times are counted where, by a clock that the test turns."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from torch.utils.data._utils.pin_memory import pin_memory

from dataset_rt_torch import LoaderStats, ProcessStats
from dataset_rt_torch.collate import TimedSamples
from dataset_rt_torch.delivery import DeliveredBatch
from dataset_rt_torch.stats import verdict_of
from tests.torch.loading import FAST_WORKERS, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataset_rt import CachedDataset, CachedSample


class Clock:
    """A clock in seconds that stands still until it is turned."""

    def __init__(self) -> None:
        self.seconds = 0

    def perf_counter_ns(self) -> int:
        return self.seconds * 10**9

    def turn(self, seconds: int) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that the loader reads."""
    turned = Clock()
    for module in ("collate", "iterator", "loader", "stats", "worker"):
        times = SimpleNamespace(perf_counter_ns=turned.perf_counter_ns)
        monkeypatch.setattr(f"dataset_rt_torch.{module}.time", times)
    return turned


def make_loader(dataset: CachedDataset, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 4,
            "samples_per_epoch": 12,
            "seed": 42,
            "sample_transform_fn": number_of,
            "num_workers": 0,
            **FAST_WORKERS,
            **options,
        }
    )


def test_times_are_counted_where_they_are_spent(dataset: CachedDataset, clock: Clock) -> None:
    def transform(sample: CachedSample) -> int:
        clock.turn(2)
        return number_of(sample)

    def collate(numbers: list[int]) -> list[int]:
        clock.turn(3)
        return numbers

    loader = make_loader(dataset, sample_transform_fn=transform, collate_fn=collate)
    iterator = iter(loader)
    clock.turn(100)
    for _batch in iterator:
        clock.turn(40)
    stats = loader.stats()
    assert stats == LoaderStats(
        epoch=0,
        batches=3,
        elapsed_seconds=100 + 3 * (11 + 40),
        wait_seconds=33,
        first_wait_seconds=11,
        processes=(ProcessStats(None, 3, 0, 24, 9),),
        verdict=stats.verdict,
    )


def test_a_pass_underway_is_counted_up_to_its_newest_batch(
    dataset: CachedDataset, clock: Clock
) -> None:
    def transform(batch: Any) -> int:
        clock.turn(5)
        return len(batch)

    loader = make_loader(dataset, sample_transform_fn=None, batch_transform_fn=transform)
    list(loader)
    iterator = iter(loader)
    next(iterator)
    clock.turn(7)
    next(iterator)
    clock.turn(1000)
    stats = loader.stats()
    assert (stats.epoch, stats.batches) == (1, 2)
    assert (stats.elapsed_seconds, stats.wait_seconds) == (17, 10)
    assert stats.processes == (ProcessStats(None, 2, 0, 10, 0),)


def test_making_samples_is_told_from_transforming_them(clock: Clock) -> None:
    def samples() -> Iterator[int]:
        for number in range(8):
            clock.turn(3)
            yield number

    timed_samples = set()
    for batch in range(30):
        timed = TimedSamples(samples(), 8, batch)
        seen = []
        for stretch in timed.stretches():
            for number in stretch:
                clock.turn(50)
                seen.append(number)
        assert seen == list(range(8))
        assert timed.estimated_nanoseconds == 8 * 3 * 10**9
        timed_samples.add(timed._timed)
    assert timed_samples == set(range(8)), "each place of a batch is timed in some batch"


def test_an_estimate_that_is_too_long_leaves_no_negative_time(
    dataset: CachedDataset, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the one sample that is timed had taken longer than all others together.
    monkeypatch.setattr(TimedSamples, "estimated_nanoseconds", 9 * 10**9)

    def transform(sample: CachedSample) -> int:
        clock.turn(1)
        return number_of(sample)

    loader = make_loader(dataset, sample_transform_fn=transform)
    list(loader)
    assert loader.stats().processes == (ProcessStats(None, 3, 12, 0, 0),)


def test_each_worker_reports_the_batches_it_made(dataset: CachedDataset) -> None:
    loader = make_loader(dataset, num_workers=2)
    for _ in range(2):
        list(loader)
        stats = loader.stats()
        assert [(process.worker, process.batches) for process in stats.processes] == [
            (0, 2),
            (1, 1),
        ]
        times = [
            (process.read_seconds, process.transform_seconds, process.collate_seconds)
            for process in stats.processes
        ]
        assert all(min(phases) >= 0 and max(phases) > 0 for phases in times)
        assert 0 < stats.first_wait_seconds <= stats.wait_seconds <= stats.elapsed_seconds


def test_a_failed_batch_is_not_counted(dataset: CachedDataset) -> None:
    def fail(sample: CachedSample) -> int:
        raise ValueError(number_of(sample))

    for num_workers in (0, 1):
        loader = make_loader(dataset, sample_transform_fn=fail, num_workers=num_workers)
        with pytest.raises(ValueError, match="sample_transform_fn failed"):
            next(iter(loader))
        assert (loader.stats().batches, loader.stats().processes) == (0, ())


def test_before_the_first_pass_there_is_nothing_to_say(dataset: CachedDataset) -> None:
    stats = make_loader(dataset).stats()
    assert (stats.batches, stats.elapsed_seconds, stats.wait_seconds) == (0, 0, 0)
    assert str(stats).splitlines() == [
        "epoch 0: 0 batches in 0.000 s, 0.000 s of them waiting (0 %), 0.000 s for the first",
        "no batch has been handed out yet",
    ]


@pytest.mark.parametrize(
    ("options", "cores", "phases", "first_wait", "cause"),
    [
        ({"num_workers": 2}, 8, (1, 12, 2), 0.1, "sample_transform_fn: add workers (num_workers"),
        ({"num_workers": 7}, 8, (1, 60, 2), 0.1, "sample_transform_fn: make it cheaper, or take"),
        ({"num_workers": 0}, 8, (4, 1, 1), 0.1, "reading: raise native_num_workers"),
        ({"num_workers": 0}, 1, (1, 1, 4), 0.1, "collate_fn: make it cheaper, or take whole"),
        (
            {"num_workers": 0, "batch_transform_fn": len, "sample_transform_fn": None},
            1,
            (1, 4, 0),
            0.1,
            "batch_transform_fn: make it cheaper (all of 1 cores are in use)",
        ),
        ({"num_workers": 2}, 8, (1, 2, 1), 0.1, "the way from the workers, which are mostly idle"),
        ({"num_workers": 2}, 8, (1, 12, 2), 4, "the start of the workers"),
        ({"num_workers": 0}, 8, (1, 4, 1), 4, "the first batch"),
    ],
)
def test_the_verdict_names_the_cause_and_what_may_help(  # noqa: PLR0917
    dataset: CachedDataset,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    cores: int,
    phases: tuple[float, float, float],
    first_wait: float,
    cause: str,
) -> None:
    monkeypatch.setattr("dataset_rt._core.available_parallelism", lambda: cores)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    verdict = verdict_of(
        dataclasses.replace(make_loader(dataset)._options, **options),
        [ProcessStats(0, 10, *phases)],
        elapsed_seconds=10,
        wait_seconds=6.3,
        first_wait_seconds=first_wait,
    )
    assert verdict.startswith("the model waits for the loader 63 % of the time; most of it is ")
    assert cause in verdict


def test_a_loader_that_keeps_up_needs_no_advice(dataset: CachedDataset) -> None:
    verdict = verdict_of(
        make_loader(dataset)._options,
        [ProcessStats(None, 10, 0.1, 0.2, 0.1)],
        elapsed_seconds=10,
        wait_seconds=0.4,
        first_wait_seconds=0.3,
    )
    assert verdict == "the model waits for the loader 4 % of the time: the loader keeps up"


class Pinnable:
    """Stands for a tensor, which only a machine with an accelerator can pin."""

    def __init__(self, *, is_pinned: bool = False) -> None:
        self.is_pinned = is_pinned

    def pin_memory(self) -> Pinnable:
        return Pinnable(is_pinned=True)


def test_a_batch_is_pinned_on_its_way_and_keeps_its_times(dataset: CachedDataset) -> None:
    (whole,) = make_loader(
        dataset, batch_size=12, sample_transform_fn=None, batch_transform_fn=lambda batch: batch
    )
    batch = {"pair": (Pinnable(), [Pinnable()]), "whole": whole}
    pinned = pin_memory(DeliveredBatch(batch, 3, 10, 20, 30))  # type: ignore[no-untyped-call]
    assert isinstance(pinned, DeliveredBatch)
    assert pinned[1:] == (3, 10, 20, 30)
    first, (second,) = pinned.batch["pair"]
    assert (first.is_pinned, second.is_pinned) == (True, True)
    assert pinned.batch["whole"] is whole
