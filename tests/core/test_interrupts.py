"""Ctrl-C in the midst of calls that take as long as the table is large."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from dataset_rt import (
    CachedDataset,
    CacheInput,
    DatasetRuntime,
    ShardCompression,
    WriterConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# From half a million rows on a call looks for signals while it works.
NUM_ROWS = 600_000
COMPRESSED = WriterConfig(shard_compression=ShardCompression(algo="zstd"))


class Rows:
    name = "rows"

    def __iter__(self) -> Iterator[CacheInput]:
        return (CacheInput(b"x", {"number": number}) for number in range(NUM_ROWS))


@pytest.fixture(scope="module")
def path(write: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(Rows(), tmp_path_factory.mktemp("interrupts"))


@pytest.fixture
def interrupted(
    runtime: DatasetRuntime, path: Path
) -> Iterator[Callable[[Callable[[CachedDataset], object]], CachedDataset]]:
    """Make a call on a fresh dataset that Ctrl-C ends, and return that dataset.

    Nothing but a call that lets go of the interpreter lets the other thread send the signal. It
    may come too late all the same, if the thread is slow to wake up: then there is another call.
    """
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e6)
    main = threading.main_thread().ident
    assert main is not None

    def run(call: Callable[[CachedDataset], object], path: Path = path) -> CachedDataset:
        while True:
            dataset = runtime.cached_dataset(path)
            # The first array loads NumPy's C interface by Python code, which is not what is tested.
            dataset.draws(0, 1)
            begins = threading.Event()

            def send(begins: threading.Event = begins) -> None:
                begins.wait()
                signal.pthread_kill(main, signal.SIGINT)

            sender = threading.Thread(target=send)
            sender.start()
            is_finished = False
            try:
                begins.set()
                call(dataset)
                is_finished = True
                sender.join()
            except KeyboardInterrupt:
                sender.join()
                if not is_finished:
                    return dataset

    yield run
    sys.setswitchinterval(switch_interval)


def weights() -> Any:
    return np.arange(NUM_ROWS, dtype=np.float64)


def test_setting_weights_leaves_the_old_ones(interrupted: Callable[..., CachedDataset]) -> None:
    dataset = interrupted(lambda dataset: dataset.set_weights(weights()))
    assert dataset.get_metadata()["weight"].unique().to_list() == [1.0]
    assert not dataset._native.table_is_edited


def test_updating_the_table_leaves_the_old_one(
    interrupted: Callable[..., CachedDataset], runtime: DatasetRuntime, path: Path
) -> None:
    table = runtime.cached_dataset(path).get_metadata().sort("number", descending=True)
    dataset = interrupted(lambda dataset: dataset.update_metadata(table))
    assert not dataset._native.table_is_edited
    assert dataset.get_metadata()["number"].head(3).to_list() == [0, 1, 2]


def test_reading_a_table_of_very_many_chunks_can_be_interrupted(
    interrupted: Callable[..., CachedDataset], runtime: DatasetRuntime, path: Path
) -> None:
    table = runtime.cached_dataset(path).get_metadata().head(50_000).to_arrow()
    dataset = interrupted(lambda dataset: dataset.update_metadata(table.to_reader(max_chunksize=1)))
    assert not dataset._native.table_is_edited


@pytest.mark.parametrize(
    "call",
    [
        lambda dataset: dataset.draws(0, 3_000_000),
        lambda dataset: dataset.get_metadata(),
        lambda dataset: dataset.rows[np.arange(NUM_ROWS)].buffer,
        lambda dataset: dataset.rows[np.arange(NUM_ROWS)].data,
        lambda dataset: dataset.rows[np.arange(NUM_ROWS)].metadata["number"],
    ],
    ids=["draws", "get_metadata", "buffer", "data", "metadata"],
)
def test_reading_can_be_interrupted_and_done_again(
    interrupted: Callable[..., CachedDataset], call: Callable[[CachedDataset], Any]
) -> None:
    dataset = interrupted(call)
    assert len(call(dataset)) > 0


class LargeRecords:
    """Few records that are large, and small on the disk."""

    name = "large records"

    def __iter__(self) -> Iterator[CacheInput]:
        return (CacheInput(bytes([number]) * (4 << 20), {}) for number in range(4))


@pytest.mark.parametrize(
    "call",
    [
        lambda dataset: dataset.get_items([(dataset.caches[0].id, 0)] * 100),
        lambda dataset: dataset.rows[[0] * 100].data,
        lambda dataset: dataset.rows[[0] * 100].samples,
        lambda dataset: dataset.rows[[0] * 100].buffer,
        lambda dataset: dataset._native.batch_of_window(0, 100).buffer,
        lambda dataset: dataset._native.begin_batch(0, 100).result(),
        lambda dataset: next(dataset.iter_batches(100)),
    ],
    ids=["get_items", "data", "samples", "buffer", "window", "begun", "batches"],
)
def test_reading_few_large_records_can_be_interrupted(
    interrupted: Callable[..., CachedDataset],
    call: Callable[[CachedDataset], Any],
    write: Callable[..., Path],
    tmp_path: Path,
) -> None:
    path = write(LargeRecords(), tmp_path, writer_config=COMPRESSED)
    interrupted(call, path)


def test_a_fingerprint_that_was_interrupted_is_right_the_next_time(
    interrupted: Callable[..., CachedDataset], runtime: DatasetRuntime, path: Path
) -> None:
    other = runtime.cached_dataset(path)
    other.set_weights(weights())

    def weigh_and_hash(dataset: CachedDataset) -> None:
        dataset.set_weights(weights())
        dataset.state_dict()

    dataset = interrupted(weigh_and_hash)
    dataset.set_weights(weights())
    assert dataset.state_dict() == other.state_dict()


def test_an_interrupted_export_can_be_done_again(
    interrupted: Callable[..., CachedDataset], tmp_path: Path
) -> None:
    directory = str(tmp_path / "snapshot")

    def weigh_and_export(dataset: CachedDataset) -> None:
        dataset.set_weights(weights())
        dataset._native.export_snapshot(directory, seed=3, shuffle=True, replacement=True)

    dataset = interrupted(weigh_and_export)
    weigh_and_export(dataset)
    assert (tmp_path / "snapshot" / "weights.bin").stat().st_size == 16 * NUM_ROWS
    assert isinstance(dataset.get_metadata(), pl.DataFrame)


class Skewed:
    """Many small records, and few that are large, and small on the disk."""

    name = "skewed"

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(20_000):
            yield CacheInput(bytes(64 << 20) if number % 10_000 == 9_999 else b"small", {})


@pytest.mark.parametrize(
    "call",
    [
        lambda dataset: dataset._native.begin_batch(0, 10).result(),
        lambda dataset: next(dataset.iter_batches(10)),
    ],
    ids=["begun", "batches"],
)
def test_batches_of_records_much_larger_than_most_can_be_interrupted(
    interrupted: Callable[..., CachedDataset],
    call: Callable[[CachedDataset], Any],
    write: Callable[..., Path],
    tmp_path: Path,
) -> None:
    path = write(Skewed(), tmp_path, writer_config=COMPRESSED)

    def read_large(dataset: CachedDataset) -> None:
        # Now payloads count as being in memory, and batches as small.
        _ = dataset.rows[:2_000].buffer
        dataset.set_weights(np.arange(20_000) % 10_000 == 9_999)
        call(dataset)

    interrupted(read_large, path)
