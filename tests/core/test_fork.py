"""A child forked after the dataset was used reads on its own threads, and never hangs."""

from __future__ import annotations

import functools
import multiprocessing
import operator
import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from dataset_rt import CacheInput, ShardCompression, WriterConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from dataset_rt import CachedDataset, CachedSample, DatasetRuntime

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks"),
    # Python 3.12 and later warn of just what is tested here.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def read(dataset: CachedDataset, answers: Connection) -> None:
    rows = [sample.metadata["number"] for sample in dataset]
    batches = [batch.rows.tolist() for batch in dataset.iter_batches(8)]
    answers.send((rows, functools.reduce(operator.iadd, batches, [])))


def test_a_forked_child_reads_what_the_parent_would(numbers: CachedDataset) -> None:
    list(numbers)
    context = multiprocessing.get_context("fork")
    answers, end_of_child = context.Pipe(duplex=False)
    child = context.Process(target=read, args=(numbers, end_of_child))
    child.start()
    end_of_child.close()
    try:
        assert answers.poll(60), "the child hangs"
        rows, batches = answers.recv()
    finally:
        child.kill()
        child.join()
    assert rows == numbers.draws(20, 40).tolist()
    assert batches == numbers.draws(40, 60).tolist()
    assert [sample.metadata["number"] for sample in numbers] == numbers.draws(20, 40).tolist()


def read_on(samples: Iterator[CachedSample], answers: Connection) -> None:
    answers.send((samples.position, len(next(samples).data)))  # type: ignore[attr-defined]


def test_a_child_forked_while_a_thread_waits_for_a_sample_reads_on(
    write: Callable[..., Path],
    runtime: DatasetRuntime,
    list_source: Callable[..., object],
    tmp_path: Path,
) -> None:
    """Decompressing takes long enough for the thread to be waiting most of the time."""
    compression = ShardCompression(algo="zstd")
    records = [CacheInput(bytes([number]) * (1 << 20), {}) for number in range(8)]
    config = WriterConfig(shard_compression=compression)
    dataset = runtime.cached_dataset(
        write(list_source("zeros", records), tmp_path, writer_config=config)
    )
    dataset.set_epoch_len(1_000_000)
    samples = iter(dataset)
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            next(samples)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        context = multiprocessing.get_context("fork")
        for _ in range(10):
            answers, end_of_child = context.Pipe(duplex=False)
            child = context.Process(target=read_on, args=(samples, end_of_child))
            child.start()
            end_of_child.close()
            try:
                assert answers.poll(60), "the child hangs"
                position, length = answers.recv()
            finally:
                child.kill()
                child.join()
            assert position <= samples.position
            assert length == 1 << 20
    finally:
        is_over.set()
        thread.join()


class Forking:
    """A source that forks a child, which leaves by an exception through the build."""

    name = "forking"

    def __init__(self) -> None:
        self.child = 0

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(10):
            if number == 5:
                self.child = os.fork()
                if self.child == 0:
                    raise SystemExit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]) == 7
            yield CacheInput(str(number).encode(), {"number": number})


def test_a_child_that_leaves_a_build_does_not_disturb_it(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    source = Forking()
    try:
        path = write(source, tmp_path)
    except SystemExit as leaving:
        # This is the child: it must not go on with the tests.
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)
    assert source.child > 0
    assert (path / "manifest.json").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["forking"]
