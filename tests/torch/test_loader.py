"""The loader as a DataLoader: budgets, batches, and the same ones for any number of workers."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader

from dataset_rt import CachedBatch, CachedSample, CorruptCacheError, DatasetRuntime
from dataset_rt_torch.worker import WindowDataset
from tests.torch.loading import FAST_WORKERS, flat, number_of, numbers_of, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataset_rt import CachedDataset
    from dataset_rt_torch.windows import Window

ORDERS: dict[str, dict[str, Any]] = {
    "weighted": {"shuffle": True},
    "permutation": {"shuffle": True, "replacement": False},
    "sequential": {"shuffle": False},
}


def test_is_a_torch_dataloader(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(num_workers=0)
    assert isinstance(loader, DataLoader)


def test_two_workers_share_the_budget_of_the_guide(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        sample_transform_fn=lambda sample: (
            torch.tensor([number_of(sample), 1.0]),
            torch.tensor(number_of(sample) % 2),
        ),
        batch_size=8,
        samples_per_epoch=32,
        num_workers=2,
        native_num_workers=1,
        seed=42,
        **FAST_WORKERS,
    )
    shapes = [(tuple(features.shape), tuple(targets.shape)) for features, targets in loader]
    assert len(loader) == 4
    assert shapes == [((8, 2), (8,))] * 4


@pytest.mark.parametrize("order", ORDERS)
def test_batches_are_those_of_the_stream_for_any_worker_count(
    dataset: CachedDataset, skewed: CachedDataset, order: str
) -> None:
    source = skewed if order == "weighted" else dataset
    batches: dict[int, Any] = {}
    for num_workers in (0, 1, 2, 3):
        loader = source.to_torch_dataloader(
            batch_size=8,
            seed=7,
            samples_per_epoch=60,
            sample_transform_fn=number_of,
            num_workers=num_workers,
            **ORDERS[order],
            **FAST_WORKERS,
        )
        batches[num_workers] = [numbers_of(loader) for _ in range(2)]
    assert [len(batch) for batch in batches[0][0]] == [8] * 7 + [4]
    assert batches[1] == batches[0]
    assert batches[2] == batches[0]
    assert batches[3] == batches[0]


def test_weighted_batches_are_the_draws_of_the_dataset(skewed: CachedDataset) -> None:
    loader = skewed.to_torch_dataloader(
        batch_size=16,
        samples_per_epoch=200,
        seed=42,
        sample_transform_fn=number_of,
        num_workers=0,
    )
    drawn = flat(numbers_of(loader))
    assert drawn == skewed.draws(0, 200).tolist()
    assert 0 not in drawn


def test_workers_take_turns(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=10, sample_transform_fn=worker_of, num_workers=2, **FAST_WORKERS
    )
    assert [set(batch.tolist()) for batch in loader] == [{0}, {1}, {0}, {1}, {0}]


def test_default_epoch_is_that_of_the_dataset(dataset: CachedDataset) -> None:
    assert len(dataset.to_torch_dataloader(batch_size=8, num_workers=0)) == 7
    dataset.set_epoch_len(16)
    assert len(dataset.to_torch_dataloader(batch_size=8, num_workers=0)) == 2


def test_drop_last_leaves_the_smaller_batch_out(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=8, drop_last=True, sample_transform_fn=number_of, shuffle=False, num_workers=0
    )
    assert flat(numbers_of(loader)) == list(range(48))
    assert len(loader) == 6


def test_drop_last_without_a_full_batch_warns_and_gives_nothing(dataset: CachedDataset) -> None:
    with pytest.warns(UserWarning, match="samples_per_epoch=5 .* fills no batch of 8"):
        loader = dataset.to_torch_dataloader(
            batch_size=8, samples_per_epoch=5, drop_last=True, num_workers=0
        )
    assert len(loader) == 0
    assert list(loader) == []


def test_without_functions_a_batch_is_a_list_of_samples(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(batch_size=3, shuffle=False, num_workers=0)
    first = next(iter(loader))
    assert [type(sample) for sample in first] == [CachedSample] * 3
    assert [sample.metadata["share"] for sample in first] == [None, 1 / 50, 2 / 50]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_collate_fn_gets_what_the_transform_gave(dataset: CachedDataset, num_workers: int) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=3,
        shuffle=False,
        samples_per_epoch=6,
        sample_transform_fn=number_of,
        collate_fn=sum,
        num_workers=num_workers,
        **FAST_WORKERS,
    )
    assert list(loader) == [0 + 1 + 2, 3 + 4 + 5]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batch_transform_gets_the_batch_and_returns_it(
    dataset: CachedDataset, num_workers: int
) -> None:
    def summary(batch: CachedBatch) -> tuple[list[int], list[int]]:
        assert isinstance(batch, CachedBatch)
        assert batch.data[0] == bytes(batch.buffer[: batch.offsets[1]])
        return batch.metadata["number"].tolist(), batch.positions.tolist()

    loader = dataset.to_torch_dataloader(
        batch_size=4,
        shuffle=False,
        samples_per_epoch=10,
        batch_transform_fn=summary,
        num_workers=num_workers,
        **FAST_WORKERS,
    )
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(loader) == [(numbers, numbers) for numbers in expected]


def test_a_whole_batch_crosses_from_a_worker(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=4,
        shuffle=False,
        samples_per_epoch=4,
        batch_transform_fn=lambda batch: batch,
        num_workers=1,
        **FAST_WORKERS,
    )
    (batch,) = loader
    assert batch.metadata["number"].tolist() == [0, 1, 2, 3]
    assert batch.data == [bytes(4), b"\1\0\0\0" * 2, b"\2\0\0\0" * 3, b"\3\0\0\0" * 4]


def test_random_seed_differs_from_loader_to_loader(dataset: CachedDataset) -> None:
    first: Any = dataset.to_torch_dataloader(num_workers=0)
    second: Any = dataset.to_torch_dataloader(num_workers=0)
    assert first.seed != second.seed


def test_in_order_may_be_given_up(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=5,
        shuffle=False,
        sample_transform_fn=number_of,
        num_workers=2,
        dataloader_kwargs={"in_order": False},
        **FAST_WORKERS,
    )
    assert sorted(flat(numbers_of(loader))) == list(range(50))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="pins memory where it can")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_pin_memory_without_an_accelerator_warns_as_torch_does(
    dataset: CachedDataset, num_workers: int
) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=25,
        pin_memory=True,
        sample_transform_fn=number_of,
        num_workers=num_workers,
        **FAST_WORKERS,
    )
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert len(list(loader)) == 2


@pytest.mark.parametrize("content", [{}, {"batch_transform_fn": len}], ids=["samples", "batches"])
def test_loops_leave_no_thread_behind(dataset: CachedDataset, content: dict[str, Any]) -> None:
    loader = dataset.to_torch_dataloader(batch_size=2, num_workers=0, prefetch_factor=4, **content)
    assert len(list(loader)) == 25
    threads = threading.active_count()
    for _ in range(20):
        for _batch in loader:
            break
    iterator = iter(loader)
    assert len(list(iterator)) == 25
    assert list(iterator) == []
    assert threading.active_count() == threads


def test_iterators_without_workers_are_independent(dataset: CachedDataset) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=25, shuffle=False, sample_transform_fn=number_of, num_workers=0
    )
    pairs = [(first[0].item(), second[0].item()) for first in loader for second in loader]
    assert pairs == [(0, 0), (0, 25), (25, 0), (25, 25)]


def test_a_loader_that_is_only_iterated_stays_alive(dataset: CachedDataset) -> None:
    numbers = [
        number
        for batch in dataset.to_torch_dataloader(
            batch_size=5,
            shuffle=False,
            sample_transform_fn=number_of,
            num_workers=1,
            **FAST_WORKERS,
        )
        for number in batch.tolist()
    ]
    assert numbers == list(range(50))


def test_more_workers_than_cores_do_not_warn(dataset: CachedDataset) -> None:
    # Warnings are errors here; torch would warn at construction and at the first pass.
    loader = dataset.to_torch_dataloader(batch_size=25, num_workers=1000, **FAST_WORKERS)
    assert loader.num_workers == 1000


@pytest.mark.parametrize("persistent_workers", [True, False])
def test_workers_leave_by_themselves_when_a_cycle_held_the_loader(
    dataset: CachedDataset, persistent_workers: bool
) -> None:
    def fail(_sample: CachedSample) -> None:
        raise ValueError("on purpose")

    def loop() -> Any:
        before = set(multiprocessing.active_children())
        loader = dataset.to_torch_dataloader(
            sample_transform_fn=fail,
            num_workers=2,
            persistent_workers=persistent_workers,
            **FAST_WORKERS,
        )
        iterator = iter(loader)
        try:
            next(iterator)
        except ValueError as error:
            # A cycle: this frame, the exception, its traceback, this frame.
            kept = error
        assert kept is not None
        return set(multiprocessing.active_children()) - before

    gc.disable()
    try:
        workers = loop()
        assert len(workers) == 2
        gc.collect()
    finally:
        gc.enable()
    # Torch terminates those that do not leave within five seconds.
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_a_damaged_record_is_the_same_error_with_and_without_workers(
    write_numbers: Callable[[int], Path], tmp_path: Path
) -> None:
    cache = tmp_path / "damaged"
    shutil.copytree(write_numbers(50), cache)
    (shard,) = (cache / "shards").iterdir()
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    dataset = DatasetRuntime(num_workers=1).cached_dataset(cache)
    messages = []
    for num_workers in (0, 1):
        loader = dataset.to_torch_dataloader(
            batch_size=10,
            shuffle=False,
            sample_transform_fn=number_of,
            num_workers=num_workers,
            **FAST_WORKERS,
        )
        iterator = iter(loader)
        for _ in range(4):
            next(iterator)
        with pytest.raises(CorruptCacheError) as caught:
            next(iterator)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "sample 49" in messages[0]
    assert "sample_transform_fn" not in messages[0]


@pytest.mark.parametrize(
    "content",
    [{"sample_transform_fn": number_of, "collate_fn": len}, {"batch_transform_fn": len}],
    ids=["samples", "batches"],
)
def test_a_window_that_cannot_be_read_ahead_fails_in_its_turn(
    dataset: CachedDataset, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any]
) -> None:
    def failing(method: Callable[[WindowDataset, Window], Any]) -> Callable[..., Any]:
        def fail_on_third(windows: WindowDataset, window: Window) -> Any:
            if window.batch == 2:
                raise OSError("no more threads")
            return method(windows, window)

        return fail_on_third

    for name in ("begin", "read"):
        monkeypatch.setattr(WindowDataset, name, failing(getattr(WindowDataset, name)))
    loader = dataset.to_torch_dataloader(batch_size=10, num_workers=0, prefetch_factor=4, **content)
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [10, 10]
    with pytest.raises(OSError, match="no more threads"):
        next(iterator)
    assert list(iterator) == [10, 10]


@pytest.mark.parametrize("options", [{"sample_transform_fn": number_of}, {}])
def test_a_forked_child_goes_on_with_its_parents_iterator(
    dataset: CachedDataset, options: dict[str, Any]
) -> None:
    loader = dataset.to_torch_dataloader(
        batch_size=10, shuffle=False, num_workers=0, collate_fn=len, **options
    )
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        # Whatever happens, the child must not run the rest of the tests.
        try:
            status = 0 if list(iterator) == [10, 10, 10, 10] else 1
        except BaseException:  # noqa: BLE001
            status = 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(iterator) == [10, 10, 10, 10]
