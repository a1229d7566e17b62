"""Many threads use one dataset at once, freely: every byte is right, and every table is one table.

It runs for a moment; ``DATASET_RT_STRESS_SECONDS=60 pytest tests/core/test_stress.py`` for longer.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from dataset_rt import (
    CachedBatch,
    CachedDataset,
    CachedSample,
    CacheInput,
    DatasetClosedError,
    DatasetRuntime,
    ReaderConfig,
    WeightError,
    pack_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECONDS = float(os.environ.get("DATASET_RT_STRESS_SECONDS", "1.5"))
NUM_THREADS = 12
NUM_ROWS = 300
# Edits never leave fewer rows, so these can always be asked for.
NUM_LASTING_ROWS = 200
# Small payloads are copied by the threads that read ahead, large ones stay in the map.
SMALL, LARGE = 50, 1_500


def record(number: int, length: int) -> bytes:
    return pack_arrays({"x": np.arange(number, number + length)})


class Packed:
    """Records whose every byte follows from their number."""

    def __init__(self, length: int) -> None:
        self.name = f"packed-{length}"
        self.length = length

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(NUM_ROWS):
            yield CacheInput(record(number, self.length), {"number": number})


class Case(NamedTuple):
    """One dataset, what its payloads are, and what can be done with it."""

    dataset: CachedDataset
    payloads: list[bytes]
    has_views: bool


@pytest.fixture(params=[("map", SMALL), ("map", LARGE), ("pread", SMALL)], ids=str)
def case(
    request: pytest.FixtureRequest, tmp_path: Path, write: Callable[..., Path]
) -> Iterator[Case]:
    backend, length = request.param
    path = write(Packed(length), tmp_path)
    config = ReaderConfig(seed=5, backend=backend)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    payloads = [record(number, length) for number in range(NUM_ROWS)]
    switch_interval_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield Case(dataset, payloads, has_views=backend == "map")
    sys.setswitchinterval(switch_interval_seconds)


class User(threading.Thread):
    """Does one thing after another until the dataset is closed, and keeps what went wrong."""

    def __init__(self, case: Case, seed: int, start: threading.Barrier) -> None:
        super().__init__(daemon=True)
        self.case = case
        self.dataset = case.dataset
        self.random = random.Random(seed)
        self.begin = start
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self.kept_views: list[tuple[memoryview, bytes]] = []

    def run(self) -> None:
        actions = [
            self.iterate,
            self.break_off,
            self.get_item,
            self.read_rows,
            self.iterate_batches,
            self.stack_arrays,
            self.set_weights,
            self.update_metadata,
            self.get_metadata,
            self.open_and_keep_views,
        ]
        self.begin.wait()
        try:
            while True:
                action = self.random.choice(actions)
                action()
                self.counts[action.__name__] += 1
        except DatasetClosedError:
            pass
        except BaseException as failure:  # noqa: BLE001 - the test raises it
            self.failure = failure

    def iterate(self) -> None:
        for sample in self.dataset:
            self.check_sample(sample)

    def break_off(self) -> None:
        for sample in self.dataset:
            self.check_sample(sample)
            if self.random.random() < 0.2:
                break

    def get_item(self) -> None:
        number = self.random.randrange(NUM_ROWS)
        sample = self.dataset.get_item(self.dataset.caches[0].id, number)
        assert sample.sample_id == number
        self.check_sample(sample)

    def read_rows(self) -> None:
        self.check_sample(self.dataset.rows[self.random.randrange(NUM_LASTING_ROWS)])
        rows = [self.random.randrange(NUM_LASTING_ROWS) for _ in range(20)]
        batch = self.dataset.rows[rows]
        assert batch.rows.tolist() == rows
        self.check_batch(batch)

    def iterate_batches(self) -> None:
        batches = self.dataset.iter_batches(self.random.randrange(1, 64))
        position = batches.position
        for batch in batches:
            assert batch.positions.tolist() == list(range(position, position + len(batch)))
            position += len(batch)
            self.check_batch(batch)

    def stack_arrays(self) -> None:
        batch = self.dataset.rows[: self.random.randrange(1, NUM_LASTING_ROWS)]
        stacked = batch.arrays()["x"]
        expected = batch.sample_ids[:, np.newaxis] + np.arange(stacked.shape[1])
        np.testing.assert_array_equal(stacked, expected)

    def set_weights(self) -> None:
        weight = float(self.random.randrange(1, 100))
        try:
            self.dataset.set_weights(np.full(len(self.dataset.rows), weight))
        except WeightError as error:
            # Another thread changed the number of rows in between.
            assert " active " in str(error)  # noqa: PT017 - any other reason is a fault

    def update_metadata(self) -> None:
        rows = [*range(NUM_ROWS), *range(NUM_ROWS)]
        self.random.shuffle(rows)
        numbers = np.array(rows[: self.random.randrange(NUM_LASTING_ROWS, len(rows))])
        version = self.random.randrange(1, 1000)
        table = pl.DataFrame(
            {
                "cache_id": np.full(len(numbers), self.dataset.caches[0].id),
                "sample_id": numbers,
                "number": numbers,
                "weight": weights_of(numbers, version),
                "version": np.full(len(numbers), version),
            }
        )
        self.dataset.update_metadata(table)

    def get_metadata(self) -> None:
        table = self.dataset.get_metadata()
        assert NUM_LASTING_ROWS <= len(table) <= 2 * NUM_ROWS
        numbers = table["number"].to_numpy()
        np.testing.assert_array_equal(numbers, table["sample_id"].to_numpy())
        weights = table["weight"].to_numpy()
        if "version" in table.columns and weights.min() != weights.max():
            (version,) = table["version"].unique()
            np.testing.assert_array_equal(weights, weights_of(numbers, version))

    def open_and_keep_views(self) -> None:
        for view, payload in self.kept_views:
            assert view == payload
        self.kept_views.clear()
        batch = self.dataset.rows[:: self.random.randrange(20, 50)]
        if self.case.has_views:
            # They outlive the batch, edits and, at the end, the dataset.
            payloads = [self.case.payloads[number] for number in batch.sample_ids]
            self.kept_views += zip(batch.views, payloads, strict=True)

    def check_sample(self, sample: CachedSample) -> None:
        assert sample.data == self.case.payloads[sample.sample_id]
        assert sample.metadata == {"number": sample.sample_id}

    def check_batch(self, batch: CachedBatch) -> None:
        numbers = batch.sample_ids
        expected = b"".join(self.case.payloads[number] for number in numbers)
        assert batch.buffer.tobytes() == expected
        np.testing.assert_array_equal(batch.metadata["number"], numbers)


def weights_of(numbers: Any, version: int) -> Any:
    """Weights that differ, and from which a mixture of two tables can be told."""
    return (1.0 + numbers % 3) * version


@pytest.mark.timeout(120 + 4 * SECONDS)
def test_threads_that_do_anything_at_once_read_what_was_written(case: Case) -> None:
    start = threading.Barrier(NUM_THREADS + 1)
    users = [User(case, seed, start) for seed in range(NUM_THREADS)]
    for user in users:
        user.start()
    start.wait()
    time.sleep(SECONDS)
    # Closing goes on at once with everything else, and from two threads.
    closers = [threading.Thread(target=case.dataset.close, daemon=True) for _ in range(2)]
    for closer in closers:
        closer.start()
    for thread in (*closers, *users):
        thread.join(timeout=100)
        assert not thread.is_alive()
    failures = [user.failure for user in users if user.failure is not None]
    if failures:
        raise failures[0]
    counts = sum((user.counts for user in users), Counter[str]())
    assert len(counts) == 10, counts
    for user in users:
        for view, payload in user.kept_views:
            assert view == payload
    with pytest.raises(DatasetClosedError):
        case.dataset.get_metadata()
