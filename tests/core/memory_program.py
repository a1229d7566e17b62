"""A small program that uses all memory that native code hands out, for tools that watch memory.

It stands alone, so that a run under Valgrind, fifty times slower, takes minutes; CONTRIBUTING.md
has the command.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from dataset_rt import (
    CachedDataset,
    CacheInput,
    CacheWriteSuccess,
    CorruptCacheError,
    DatasetRuntime,
    ReaderConfig,
    pack_arrays,
    unpack_arrays,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NUM_ROWS = 50
# Read ahead as copies, and in the map.
LENGTHS = [20, 3_000]
FILES = ["shards/000000.bin", "index.bin", "metadata.arrow"]


class Packed:
    """Arrays full of the number of their row."""

    def __init__(self, length: int) -> None:
        self.name = f"packed-{length}"
        self.length = length

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(NUM_ROWS):
            text = f"text {number}" if number % 3 else None
            yield CacheInput(
                pack_arrays({"x": np.full(self.length, number)}), {"number": number, "text": text}
            )


def main() -> None:
    runtime = DatasetRuntime(num_workers=2)
    with tempfile.TemporaryDirectory() as base:
        for length in LENGTHS:
            (result,) = runtime.write_cache(Packed(length), base)
            assert isinstance(result, CacheWriteSuccess), result
            backends: tuple[Literal["map", "pread"], ...] = ("map", "pread")
            for backend in backends:
                config = ReaderConfig(seed=1, backend=backend)
                dataset = runtime.cached_dataset(result.path, reader_config=config)
                read_samples(dataset)
                use_buffers_again(dataset)
                read_after_an_edit(dataset)
            outlive_the_dataset(runtime.cached_dataset(result.path))
            for file in FILES:
                for part in (0.0, 0.4):
                    read_what_was_cut(runtime, result.path, Path(base) / "copy", file, part)


def read_samples(dataset: CachedDataset) -> None:
    for sample in dataset:
        for data in (sample.data, bytearray(sample.data), memoryview(sample.data)):
            assert (unpack_arrays(data)["x"] == sample.metadata["number"]).all()


def use_buffers_again(dataset: CachedDataset) -> None:
    """Memory of batches that are gone serves others, but not while an array looks into it."""
    kept = [batch.buffer for batch in dataset.iter_batches(16)]
    copies = [buffer.copy() for buffer in kept]
    for batch in dataset.iter_batches(16):
        batch.buffer[:] = 7
    for buffer, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(buffer, copy)


def read_after_an_edit(dataset: CachedDataset) -> None:
    samples, batches = iter(dataset), dataset.iter_batches(8)
    next(samples)
    next(batches)
    dataset.set_weights(np.arange(1, NUM_ROWS + 1))
    assert len(list(samples)) == NUM_ROWS - 1
    assert sum(len(batch) for batch in batches) == NUM_ROWS - 8
    batch = dataset.rows[5:25]
    np.testing.assert_array_equal(batch.arrays()["x"][:, -1], batch.metadata["number"])
    assert np.ma.getmaskarray(batch.metadata["text"]).any()


def outlive_the_dataset(dataset: CachedDataset) -> None:
    batch = dataset.rows[5:45]
    views, payloads = batch.views, batch.data
    array = np.frombuffer(views[0], dtype=np.uint8)
    del dataset, batch
    gc.collect()
    assert [bytes(view) for view in views] == payloads
    del views
    gc.collect()
    assert array.tobytes() == payloads[0]


def read_what_was_cut(
    runtime: DatasetRuntime, whole: Path, path: Path, file: str, part: float
) -> None:
    shutil.copytree(whole, path)
    dataset = runtime.cached_dataset(path, reader_config=ReaderConfig(shuffle=False))
    views = dataset.rows[:].views
    os.truncate(path / file, int((path / file).stat().st_size * part))
    for read in (
        lambda: [sample.data for sample in dataset],
        lambda: [batch.data for batch in dataset.iter_batches(7)],
        lambda: [batch.metadata["text"] for batch in dataset.iter_batches(7)],
    ):
        # Whether there is an error is for other tests: what is already known is read no more.
        with contextlib.suppress(CorruptCacheError):
            read()
    assert len(b"".join(views)) == sum(len(view) for view in views)
    shutil.rmtree(path)


if __name__ == "__main__":
    main()
