"""Looking after caches: their status, their damages, what builds left behind."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import (
    CacheInput,
    CacheNotFoundError,
    CacheStatus,
    ConfigError,
    CorruptCacheError,
    DatasetRuntime,
    ShardCompression,
    WriterConfig,
    remove_abandoned,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def records(count: int) -> list[CacheInput]:
    return [CacheInput(f"number {n} ".encode() * 50, {"number": n}) for n in range(count)]


ABANDON = """
import os, sys
from dataset_rt import DatasetRuntime, WriterConfig

class Source:
    name = "left"

    def __iter__(self):
        return self.iter_from(0)

    def iter_from(self, start):
        for number in range(start, 10_000):
            if number == 5_000:
                os.kill(os.getpid(), 9)
            yield b"x" * 100, {"number": number}

config = WriterConfig(max_shard_bytes=10_000, prefetch_size=8)
DatasetRuntime(num_workers=1).write_cache(Source(), sys.argv[1], writer_config=config)
"""


@pytest.fixture
def base(tmp_path: Path, list_source: Any, write: Callable[..., Path]) -> Path:
    """Return a directory with a cache, an abandoned build, a damaged cache and a stranger."""
    base = tmp_path / "base"
    write(list_source("done", records(10)), base)
    subprocess.run([sys.executable, "-c", ABANDON, str(base)], check=False, timeout=60)
    broken = write(list_source("broken", records(10)), base)
    (broken / "manifest.json").write_text("{}")
    (base / "notes").mkdir()
    return base


def test_status_tells_complete_abandoned_and_damaged(base: Path) -> None:
    broken, done, left = status(base)
    assert (broken.name, broken.state) == ("broken", "damaged")
    assert "manifest.json" in broken.message
    payload_bytes = sum(len(bytes(record.data)) for record in records(10))
    assert done == CacheStatus("done", base / "done", "complete", 10, payload_bytes, payload_bytes)
    assert (left.name, left.state) == ("left", "abandoned")
    assert 4_800 <= left.samples < 5_000
    assert left.stored_bytes >= left.samples * 100
    assert "was built by process" in left.message


def test_a_running_build_is_shown_and_left_alone(runtime: DatasetRuntime, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Looking:
        name = "looking"

        def __iter__(self) -> Any:
            yield b"", {}
            seen.extend(status(tmp_path))
            assert remove_abandoned(tmp_path) == ()

    runtime.write_cache(Looking(), tmp_path)
    (building,) = seen
    assert (building.name, building.state) == ("looking", "building")
    assert "is built by process" in building.message
    assert [cache.state for cache in status(tmp_path)] == ["complete"]


def test_only_what_dead_builds_left_is_removed(base: Path) -> None:
    (removed,) = remove_abandoned(base)
    assert (removed.name, removed.state) == ("left", "abandoned")
    assert sorted(entry.name for entry in base.iterdir()) == ["broken", "done", "notes"]
    assert remove_abandoned(base) == ()


def test_another_build_keeps_what_can_be_continued(
    runtime: DatasetRuntime, base: Path, list_source: Any
) -> None:
    runtime.write_cache(list_source("other", records(3)), base)
    assert [cache.name for cache in status(base) if cache.state == "abandoned"] == ["left"]


@pytest.mark.parametrize("function", [status, remove_abandoned])
def test_what_is_no_directory_of_caches_is_refused(
    function: Callable[[Any], object], tmp_path: Path
) -> None:
    for path in (tmp_path / "missing", tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(CacheNotFoundError, match="is no directory of caches"):
            function(path)
    with pytest.raises(ConfigError, match="base is 3"):
        function(3)


class TestVerification:
    @pytest.fixture(params=["none", "lz4", "zstd"])
    def path(
        self,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        list_source: Any,
        write: Callable[..., Path],
    ) -> Path:
        config = WriterConfig(
            max_shard_bytes=2_000, shard_compression=ShardCompression(algo=request.param)
        )
        return write(list_source("s", records(100)), tmp_path, writer_config=config)

    def test_an_intact_cache_has_no_damages(self, runtime: DatasetRuntime, path: Path) -> None:
        found = runtime.verify_cache(path)
        assert (found.name, found.samples, found.damages) == ("s", 100, ())
        files = [file for file in path.rglob("*") if file.is_file()]
        manifest = path / "manifest.json"
        assert found.read_bytes == sum(f.stat().st_size for f in files) - manifest.stat().st_size

    def test_every_damaged_sample_is_listed(self, runtime: DatasetRuntime, path: Path) -> None:
        shard = path / "shards" / "000001.bin"
        bytes_of_shard = bytearray(shard.read_bytes())
        bytes_of_shard[0] ^= 1
        bytes_of_shard[-1] ^= 1
        shard.write_bytes(bytes_of_shard)
        found = runtime.verify_cache(path)
        whole, first, last = found.damages
        assert not found.is_intact
        assert whole.sample is None
        assert str(shard) in whole.message
        assert first.sample is not None
        assert last.sample is not None
        assert first.sample < last.sample
        assert f"damaged sample {first.sample} in {shard}" in first.message
        with runtime.cached_dataset(path) as dataset:
            cache = dataset.caches[0].id
            for sample in range(100):
                if sample in (first.sample, last.sample):
                    with pytest.raises(CorruptCacheError):
                        dataset.get_item(cache, sample)
                else:
                    assert dataset.get_item(cache, sample).metadata == {"number": sample}

    def test_damaged_metadata_that_opening_needs_raises(
        self, runtime: DatasetRuntime, path: Path
    ) -> None:
        metadata = path / "metadata.arrow"
        damaged = bytearray(metadata.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        metadata.write_bytes(damaged)
        with pytest.raises(CorruptCacheError, match=f"damaged block 0 of {metadata}"):
            runtime.verify_cache(path)

    def test_what_cannot_be_opened_raises(self, runtime: DatasetRuntime, path: Path) -> None:
        (path / "shards" / "000001.bin").unlink()
        with pytest.raises(CorruptCacheError, match=r"000001\.bin is missing"):
            runtime.verify_cache(path)
        with pytest.raises(CacheNotFoundError):
            runtime.verify_cache(path / "shards")
