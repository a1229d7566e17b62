"""Compressed caches and other backends give what was written, on every way to read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dataset_rt import (
    CacheInput,
    ConfigError,
    CorruptCacheError,
    DatasetRuntime,
    ReaderConfig,
    ShardCompression,
    WriterConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NUM_SAMPLES = 400
COMPRESSIONS = [
    ShardCompression(),
    ShardCompression(algo="lz4"),
    ShardCompression(algo="zstd", dictionary=False),
    ShardCompression(algo="zstd", level=12),
]


def payload(number: int) -> bytes:
    """Return JSON, noise, or nothing, short or long."""
    chance = random.Random(number)
    kind = number % 4
    if kind == 0:
        return json.dumps({"number": number, "words": ["again"] * chance.randrange(20)}).encode()
    if kind == 1:
        return chance.randbytes(chance.randrange(100))
    if kind == 2:
        return chance.randbytes(30) * chance.randrange(1000)
    return b""


@pytest.fixture(scope="module", params=COMPRESSIONS, ids=str)
def path(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    list_source: Any,
    write: Callable[..., Path],
) -> Path:
    config = WriterConfig(max_shard_bytes="100KB", shard_compression=request.param)
    source = list_source(
        "s", [CacheInput(payload(number), {"number": number}) for number in range(NUM_SAMPLES)]
    )
    return write(source, tmp_path_factory.mktemp("storage"), writer_config=config)


@pytest.fixture(params=["map", "pread"])
def config(request: pytest.FixtureRequest) -> ReaderConfig:
    return ReaderConfig(shuffle=False, backend=request.param)


def test_iterating_gives_every_payload(
    runtime: DatasetRuntime, path: Path, config: ReaderConfig
) -> None:
    with runtime.cached_dataset(path, reader_config=config) as dataset:
        samples = list(dataset)
        assert [sample.data for sample in samples] == [payload(n) for n in range(NUM_SAMPLES)]
        assert [sample.metadata["number"] for sample in samples] == list(range(NUM_SAMPLES))


def test_single_samples_and_batches_agree(
    runtime: DatasetRuntime, path: Path, config: ReaderConfig
) -> None:
    with runtime.cached_dataset(path, reader_config=config) as dataset:
        cache = dataset.caches[0].id
        batch = dataset.rows[[5, 399, 2, 5]]
        expected = [payload(number) for number in (5, 399, 2, 5)]
        assert batch.data == expected
        assert batch.buffer.tobytes() == b"".join(expected)
        assert np.diff(batch.offsets).tolist() == [len(data) for data in expected]
        items = dataset.get_items([(cache, 5), (cache, 399), (cache, 2), (cache, 5)])
        assert [item.data for item in items] == expected
        whole = b"".join(bytes(part.buffer) for part in dataset.iter_batches(64))
        assert whole == b"".join(payload(number) for number in range(NUM_SAMPLES))


def test_views_are_given_where_payloads_lie_in_a_map_and_refused_elsewhere(
    runtime: DatasetRuntime, path: Path, config: ReaderConfig
) -> None:
    with runtime.cached_dataset(path, reader_config=config) as dataset:
        stored = sum(file.stat().st_size for file in (path / "shards").iterdir())
        is_compressed = stored < sum(len(payload(number)) for number in range(NUM_SAMPLES))
        batch = dataset.rows[:40]
        if config.backend == "map" and not is_compressed:
            assert [bytes(view) for view in batch.views] == [payload(n) for n in range(40)]
        else:
            with pytest.raises(ConfigError, match='no views into cache "s"'):
                _ = batch.views


def test_a_damaged_record_is_named_by_both_backends(
    runtime: DatasetRuntime, path: Path, config: ReaderConfig, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    for file in path.rglob("*"):
        if file.is_file():
            (copy / file.relative_to(path)).parent.mkdir(parents=True, exist_ok=True)
            (copy / file.relative_to(path)).write_bytes(file.read_bytes())
    shard = copy / "shards" / "000000.bin"
    damaged = bytearray(shard.read_bytes())
    damaged[0] ^= 0x10
    shard.write_bytes(damaged)
    with runtime.cached_dataset(copy, reader_config=config) as dataset:
        with pytest.raises(CorruptCacheError, match=f"damaged sample 0 in {shard}: checksum"):
            list(dataset)
        with pytest.raises(CorruptCacheError, match="damaged sample 0"):
            _ = dataset.rows[:4].buffer
        assert dataset.rows[4].data == payload(4)


def test_a_shard_cut_short_while_it_is_read_gives_an_exception(
    runtime: DatasetRuntime,
    config: ReaderConfig,
    tmp_path: Path,
    list_source: Any,
    write: Callable[..., Path],
) -> None:
    records = [CacheInput(random.Random(n).randbytes(9000), {}) for n in range(200)]
    path = write(list_source("s", records), tmp_path)
    shard = path / "shards" / "000000.bin"
    config = config.model_copy(update={"prefetch_size": 2})
    with runtime.cached_dataset(path, reader_config=config) as dataset:
        samples = iter(dataset)
        assert next(samples).data == records[0].data
        with shard.open("r+b") as file:
            file.truncate(5000)
        with pytest.raises(CorruptCacheError, match="was cut short or could not be read"):
            list(samples)
        with pytest.raises(CorruptCacheError, match="was cut short or could not be read"):
            _ = dataset.rows[100:150].buffer
        with pytest.raises(CorruptCacheError):
            list(dataset.iter_batches(32))


def test_many_shards_need_few_descriptors(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    records = [CacheInput(bytes([n % 256]) * 10, {}) for n in range(600)]
    path = write(
        list_source("s", records), tmp_path, writer_config=WriterConfig(max_shard_bytes=10)
    )
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    with runtime.cached_dataset(path, reader_config=ReaderConfig(backend="pread")) as dataset:
        assert len(list(dataset)) == 600
        assert len(list(descriptors.iterdir())) <= before + 40
    assert len(list(descriptors.iterdir())) <= before + 2
