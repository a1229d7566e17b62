"""What runs ahead of a loop: bounded in bytes whatever the records, and shared by threads."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from dataset_rt import (
    CacheInput,
    CorruptCacheError,
    DatasetRuntime,
    ReaderConfig,
    ShardCompression,
    WriterConfig,
    pack_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt import CachedBatch, CachedDataset

LARGE_BYTES = 8 << 20
# Chunks ahead and one in hand, each of one large record, their bytes objects, and the allocator.
MOST_BYTES = 10 * LARGE_BYTES


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    shared = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[2])
    return (pages - shared) * 4096


class Zeros:
    """Records that are small on the disk only."""

    name = "zeros"

    def __iter__(self) -> Iterator[CacheInput]:
        return (CacheInput(bytes(LARGE_BYTES), {}) for _ in range(64))


class Tiny:
    """Very many records without a payload."""

    name = "tiny"

    def __iter__(self) -> Iterator[CacheInput]:
        return (CacheInput(b"", {"number": number}) for number in range(300_000))


class Mixed:
    """Many small records, and a few large ones that the weights choose."""

    name = "mixed"

    def __iter__(self) -> Iterator[CacheInput]:
        large = np.random.default_rng(0).bytes(LARGE_BYTES)
        for number in range(20_000):
            yield CacheInput(large if number % 5_000 == 0 else b"small", {"number": number})


@pytest.mark.parametrize("prefetch_size", [64, 2_000])
@pytest.mark.parametrize("backend", ["map", "pread"])
@pytest.mark.parametrize("kind", ["compressed", "weighted"])
def test_reading_ahead_is_bounded_in_bytes_that_are_read(
    kind: str,
    backend: Literal["map", "pread"],
    prefetch_size: int,
    write: Callable[..., Path],
    tmp_path: Path,
) -> None:
    config = ReaderConfig(backend=backend, prefetch_size=prefetch_size)
    if kind == "compressed":
        compression = ShardCompression(algo="zstd")
        path = write(Zeros(), tmp_path, writer_config=WriterConfig(shard_compression=compression))
    else:
        path = write(Mixed(), tmp_path)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    if kind == "weighted":
        dataset.set_weights(np.arange(20_000) % 5_000 == 0)
    before = resident_bytes()
    samples = iter(dataset)
    for _ in range(8):
        assert len(next(samples).data) == LARGE_BYTES
        assert resident_bytes() - before < MOST_BYTES


def test_threads_that_share_an_iterator_get_each_sample_once(numbers: CachedDataset) -> None:
    numbers.set_epoch_len(20_000)
    expected = sorted(numbers.draws(0, 20_000).tolist())
    samples = iter(numbers)
    found: list[list[int]] = [[] for _ in range(4)]

    def drain(mine: list[int]) -> None:
        for sample in samples:
            mine.append(sample.metadata["number"])
            assert 0 <= samples.position <= 20_000

    threads = [threading.Thread(target=drain, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain.from_iterable(found)) == expected
    assert samples.position == 20_000


class Arrays:
    """Records of one array of bytes, of which each has another length if they are ragged."""

    def __init__(self, num_records: int, array_bytes: int, *, ragged: bool = False) -> None:
        self.name = f"arrays-{array_bytes}-{ragged}"
        self.arrays = [
            np.random.default_rng(number).integers(
                0, 256, array_bytes + number % 7 * ragged, dtype=np.uint8
            )
            for number in range(num_records)
        ]

    def __iter__(self) -> Iterator[CacheInput]:
        for number, array in enumerate(self.arrays):
            yield CacheInput(pack_arrays({"x": array}), {"number": number})


WARM_RECORDS = 1_100
"""After so many reads that needed no disk, payloads are taken for being in memory."""


@pytest.mark.parametrize("array_bytes", [100, 9_000])
def test_samples_before_a_damaged_one_arrive_when_payloads_are_in_memory(
    array_bytes: int, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(Arrays(WARM_RECORDS, array_bytes), tmp_path)
    config = ReaderConfig(shuffle=False)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    assert sum(1 for _ in dataset) == WARM_RECORDS
    damaged = 700
    offset = int(dataset.rows[:damaged].offsets[-1])
    with (path / "shards" / "000000.bin").open("r+b") as shard:
        shard.seek(offset + array_bytes)
        byte = shard.read(1)
        shard.seek(offset + array_bytes)
        shard.write(bytes([byte[0] ^ 1]))

    samples = iter(dataset)
    for number in range(damaged):
        assert next(samples).sample_id == number
    with pytest.raises(CorruptCacheError, match=f"damaged sample {damaged} in"):
        next(samples)
    assert samples.position == WARM_RECORDS + damaged
    assert list(samples) == []
    with pytest.raises(CorruptCacheError, match=f"damaged sample {damaged} in"):
        dataset.get_items([(dataset.caches[0].id, number) for number in range(damaged + 1)])


USES: dict[str, Callable[[CachedBatch], list[bytes]]] = {
    "buffer": lambda batch: [
        batch.buffer[start:stop].tobytes()
        for start, stop in itertools.pairwise(batch.offsets.tolist())
    ],
    "data": lambda batch: batch.data,
    "views": lambda batch: [bytes(view) for view in batch.views],
    "samples": lambda batch: [sample.data for sample in batch.samples],
    "arrays": lambda batch: [pack_arrays({"x": array}) for array in batch.arrays()["x"]],
    "padded arrays": lambda batch: [
        pack_arrays({"x": array}) for array in batch.arrays(pad_axis=0)["x"]
    ],
}


@pytest.mark.parametrize("array_bytes", [100, 9_000])
@pytest.mark.parametrize("backend", ["map", "pread"])
def test_a_batch_gives_the_same_whatever_those_before_it_were_asked_for(
    backend: Literal["map", "pread"],
    array_bytes: int,
    write: Callable[..., Path],
    tmp_path: Path,
) -> None:
    source = Arrays(WARM_RECORDS, array_bytes)
    payloads = [record.data for record in source]
    config = ReaderConfig(backend=backend, seed=3)
    path = write(source, tmp_path)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    names = [name for name in USES if backend == "map" or name != "views"]
    random = np.random.default_rng(5)
    for repeats in (1, 2, 5):
        # Some in a row, so that what is read ahead is and is not what is asked for.
        uses = iter(np.repeat(random.choice(names, 500), repeats).tolist())
        for batch in dataset.iter_batches(16):
            for use in (next(uses), next(uses)):
                assert USES[use](batch) == [payloads[number] for number in batch.sample_ids], use


def test_arrays_that_differ_end_no_iterator_that_is_not_asked_for_them(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(Arrays(40, 100, ragged=True), tmp_path)
    config = ReaderConfig(shuffle=False)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    batches = dataset.iter_batches(1)
    # Arrays of one record are like themselves, and from now on arrays are stacked ahead.
    for batch in itertools.islice(batches, 8):
        assert len(batch.arrays()["x"]) == 1
    seven = dataset.iter_batches(7)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            next(seven).arrays()
        assert len(next(seven).data) == 7


@pytest.mark.parametrize("use", ["buffer", "data", "views", "arrays", "padded arrays"])
def test_damage_ends_an_iterator_of_batches_at_the_same_place(
    use: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(Arrays(WARM_RECORDS, 3_000), tmp_path)
    config = ReaderConfig(shuffle=False)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    offset = int(dataset.rows[:700].offsets[-1])
    with (path / "shards" / "000000.bin").open("r+b") as shard:
        shard.seek(offset + 3_000)
        byte = shard.read(1)
        shard.seek(offset + 3_000)
        shard.write(bytes([byte[0] ^ 1]))
    for _ in range(2):
        start = dataset.state_dict()
        batches = dataset.iter_batches(50)
        for first in range(0, 700, 50):
            batch = next(batches)
            USES[use](batch)
            assert batch.sample_ids[0] == first
        with pytest.raises(CorruptCacheError, match="damaged sample 700 in"):
            next(batches)
        assert list(batches) == []
        dataset.load_state_dict(start)


def test_payloads_that_nobody_asks_for_are_not_read(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(Arrays(WARM_RECORDS, 3_000), tmp_path)
    config = ReaderConfig(shuffle=False)
    dataset = DatasetRuntime(num_workers=2).cached_dataset(path, reader_config=config)
    for batch in dataset.iter_batches(50):
        assert len(batch.metadata["number"]) == 50
    with (path / "shards" / "000000.bin").open("r+b") as shard:
        shard.seek(3_000_000)
        shard.write(b"damage")
    assert sum(len(batch.metadata["number"]) for batch in dataset.iter_batches(50)) == WARM_RECORDS
    with pytest.raises(CorruptCacheError, match="damaged sample"):
        _ = dataset.rows[:].buffer


@pytest.mark.parametrize("batch_size", [1, 16])
def test_batches_of_tiny_records_ahead_are_few(
    batch_size: int, write: Callable[..., Path], tmp_path: Path
) -> None:
    dataset = DatasetRuntime(num_workers=2).cached_dataset(write(Tiny(), tmp_path))
    before = resident_bytes()
    batches = dataset.iter_batches(batch_size)
    for batch in itertools.islice(batches, 1_000):
        assert len(batch) == batch_size
    assert resident_bytes() - before < 20 << 20


def test_a_batch_begun_ahead_is_given_once(numbers: CachedDataset) -> None:
    pending = numbers._native.begin_batch(0, 50)
    assert len(pending.result()) == 50
    with pytest.raises(RuntimeError, match="given before"):
        pending.result()
