"""What runs ahead of a loop: bounded in bytes whatever the records, and shared by threads."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from dataset_rt import CacheInput, DatasetRuntime, ReaderConfig, ShardCompression, WriterConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataset_rt import CachedDataset

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
