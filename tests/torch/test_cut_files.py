"""A shard that is cut short while a loader reads it gives an exception, and the process lives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dataset_rt import CacheInput, CacheWriteSuccess, CorruptCacheError, DatasetRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAYLOAD_BYTES = 10_000


class Noise:
    """A source whose shard has many pages."""

    name = "noise"

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(100):
            yield CacheInput(random.Random(number).randbytes(PAYLOAD_BYTES), {})


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_shard_cut_short_under_a_loader(tmp_path: Path, num_workers: int) -> None:
    runtime = DatasetRuntime(num_workers=1)
    (result,) = runtime.write_cache(Noise(), tmp_path)
    assert isinstance(result, CacheWriteSuccess)
    dataset = runtime.cached_dataset(result.path)
    loader = dataset.to_torch_dataloader(
        sample_transform_fn=lambda sample: len(sample.data),
        seed=1,
        batch_size=2,
        num_workers=num_workers,
        multiprocessing_context="forkserver" if num_workers else "spawn",
        persistent_workers=False,
        timeout=60 if num_workers else 0,
    )
    batches = iter(loader)
    assert next(batches).tolist() == [PAYLOAD_BYTES] * 2
    with (result.path / "shards" / "000000.bin").open("r+b") as shard:
        shard.truncate(4096)
    with pytest.raises(CorruptCacheError, match="was cut short or could not be read"):
        list(batches)
