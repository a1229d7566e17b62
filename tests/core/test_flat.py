"""Descriptors, threads, maps and memory stay flat, however much is read, opened and broken off."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dataset_rt import CachedDataset, CacheInput, DatasetRuntime, ReaderConfig, WriterConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")

NUM_ROWS = 100
NUM_SHARDS = 2_000
PAYLOAD_BYTES = 2_000
BACKENDS = ["map", "pread"]
# What allocators may keep between two counts. Rounds that each keep what they read ahead, or their
# dataset, keep more.
MEMORY_SLACK_BYTES = 2 * 2**20


class Footprint(NamedTuple):
    """What this process holds of the system."""

    descriptors: int
    threads: int
    maps: int
    memory_bytes: int

    @classmethod
    def now(cls) -> Footprint:
        gc.collect()
        process = Path("/proc/self")
        maps = [line.split() for line in (process / "maps").read_text().splitlines()]
        memory_pages = int((process / "statm").read_text().split()[1])
        return cls(
            descriptors=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
            # Maps of files; the allocators make and merge others as they please.
            maps=sum(len(line) > 5 and line[5].startswith("/") for line in maps),
            memory_bytes=memory_pages * resource.getpagesize(),
        )

    def is_within(self, other: Footprint) -> bool:
        limits = other._replace(memory_bytes=other.memory_bytes + MEMORY_SLACK_BYTES)
        return all(count <= limit for count, limit in zip(self, limits, strict=True))


def assert_flat(round_of_use: Callable[[], None], warm_up: int, rounds: int) -> None:
    """Hold more of nothing after many rounds than after the first few."""
    for _ in range(warm_up):
        round_of_use()
    before = Footprint.now()
    for _ in range(rounds):
        round_of_use()
    deadline = time.monotonic() + 30
    # A thread of the pool lets go of what was broken off when it comes to it.
    while not (after := Footprint.now()).is_within(before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert after.is_within(before), (before, after)


class Numbered:
    """Payloads that differ and are long enough for a leak of them to show."""

    def __init__(self, name: str, num_rows: int) -> None:
        self.name = name
        self.num_rows = num_rows

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(self.num_rows):
            yield CacheInput(str(number).encode().ljust(PAYLOAD_BYTES, b"."), {"number": number})


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory, write: Callable[..., Path]) -> Path:
    return write(Numbered("hundred", NUM_ROWS), tmp_path_factory.mktemp("hundred"))


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory: pytest.TempPathFactory, write: Callable[..., Path]) -> Path:
    """A cache with each record in a shard of its own."""
    base = tmp_path_factory.mktemp("many_shards")
    config = WriterConfig(max_shard_bytes=PAYLOAD_BYTES)
    path = write(Numbered("shards", NUM_SHARDS), base, writer_config=config)
    assert len(list((path / "shards").iterdir())) == NUM_SHARDS
    return path


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_thousand_epochs_leave_nothing(
    runtime: DatasetRuntime, hundred: Path, backend: str
) -> None:
    dataset = open_with(runtime, hundred, backend)

    def read_two_epochs() -> None:
        assert sum(len(sample.data) for sample in dataset) == NUM_ROWS * PAYLOAD_BYTES
        assert sum(batch.buffer.size for batch in dataset.iter_batches(32)) == (
            NUM_ROWS * PAYLOAD_BYTES
        )

    assert_flat(read_two_epochs, warm_up=50, rounds=500)


@pytest.mark.parametrize("backend", BACKENDS)
def test_datasets_that_are_dropped_open_leave_nothing(
    runtime: DatasetRuntime, hundred: Path, backend: str
) -> None:
    def open_and_read() -> None:
        dataset = open_with(runtime, hundred, backend)
        dataset.set_weights(range(NUM_ROWS))
        assert len(next(iter(dataset)).data) == PAYLOAD_BYTES
        assert len(next(dataset.iter_batches(8))) == 8
        assert len(dataset.rows[3:5].data) == 2
        if backend == "map":
            assert len(dataset.rows[3:5].views) == 2

    assert_flat(open_and_read, warm_up=50, rounds=450)


def test_runtimes_that_are_dropped_end_their_threads(hundred: Path) -> None:
    def read_on_own_threads() -> None:
        dataset = open_with(DatasetRuntime(num_workers=2), hundred, "map")
        assert sum(len(batch) for batch in dataset.iter_batches(32)) == NUM_ROWS

    assert_flat(read_on_own_threads, warm_up=10, rounds=100)


@pytest.mark.parametrize("backend", BACKENDS)
def test_iterators_that_are_broken_off_leave_nothing(
    runtime: DatasetRuntime, hundred: Path, backend: str
) -> None:
    dataset = open_with(runtime, hundred, backend)

    def break_off() -> None:
        for sample in dataset:
            assert len(sample.data) == PAYLOAD_BYTES
            break
        for batch in dataset.iter_batches(10):
            assert len(batch) == 10
            break

    assert_flat(break_off, warm_up=50, rounds=200)


@pytest.mark.parametrize("backend", BACKENDS)
def test_thousands_of_shards_are_read_with_128_descriptors(many_shards: Path, backend: str) -> None:
    script = f"""
import resource
from dataset_rt import DatasetRuntime, ReaderConfig

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
config = ReaderConfig(shuffle=False, backend={backend!r})
dataset = DatasetRuntime(num_workers=2).cached_dataset({str(many_shards)!r}, reader_config=config)
samples = [int(sample.data.rstrip(b".")) for sample in dataset]
assert samples == list(range({NUM_SHARDS})), samples
batches = [int(data.rstrip(b".")) for batch in dataset.iter_batches(300) for data in batch.data]
assert batches == samples, batches
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def open_with(runtime: DatasetRuntime, path: Path, backend: str) -> CachedDataset:
    # Checked by its own model, which knows the names.
    config = ReaderConfig(seed=3, backend=backend)  # type: ignore[arg-type]
    return runtime.cached_dataset(path, reader_config=config)
