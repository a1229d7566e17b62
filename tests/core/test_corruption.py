"""Caches that changed on disk give an error or exactly what was written, whichever byte it was."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dataset_rt import (
    CacheInput,
    CacheSource,
    CorruptCacheError,
    DatasetRuntime,
    ReaderConfig,
    ShardCompression,
    UnsupportedCacheError,
    WriterConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataset_rt import CachedSample

RECORDS = [
    CacheInput(b"again and again, " * 5, {"number": 5, "text": "größe"}),
    CacheInput(b"", {"number": None, "text": ""}),
    CacheInput(b"\0\x01", {"number": -1, "text": None}),
]
# Enough small ones to train a dictionary on.
SIMILAR_RECORDS = [
    CacheInput(f'{{"number": {number * 7_919}, "kind": "entry {number % 7}"}}'.encode(), {})
    for number in range(70)
]
# Of larger files a byte in so many; coprime to eight, so that each bit gets its turn.
SMALL_FILE_BYTES = 1_500
STEP = 13
# Records in table order, so that each is read; all checks are the default ones.
IN_ORDER = ReaderConfig(shuffle=False)


@pytest.fixture(params=["none", "lz4", "zstd", "dictionary"])
def small(
    request: pytest.FixtureRequest,
    write: Callable[..., Path],
    list_source: Callable[..., CacheSource],
    tmp_path: Path,
) -> Path:
    """A cache that the test may change."""
    if request.param == "dictionary":
        source = list_source("small", SIMILAR_RECORDS)
        config = WriterConfig(shard_compression=ShardCompression(algo="zstd"))
    else:
        source = list_source("small", RECORDS)
        compression = ShardCompression(algo=request.param)
        config = WriterConfig(shard_compression=compression, max_shard_bytes=4)
    cache = write(source, tmp_path, writer_config=config)
    assert (cache / "dictionary.bin").exists() == (request.param == "dictionary")
    return cache


def files_of(cache: Path) -> list[Path]:
    return sorted(file for file in cache.rglob("*") if file.is_file())


def places(length: int) -> range:
    return range(0, length, 1 if length <= SMALL_FILE_BYTES else STEP)


def read(
    runtime: DatasetRuntime, cache: Path
) -> tuple[list[CachedSample], list[tuple[object, ...]]]:
    with runtime.cached_dataset(cache, reader_config=IN_ORDER) as dataset:
        return list(dataset), dataset.get_metadata().rows()


def is_noticed(
    runtime: DatasetRuntime,
    cache: Path,
    expected: tuple[list[CachedSample], list[tuple[object, ...]]],
) -> bool:
    try:
        found = read(runtime, cache)
    except (CorruptCacheError, UnsupportedCacheError):
        return True
    assert found == expected
    return False


def overwrite(file: Path, place: int, byte: int) -> None:
    # In place: a file that is truncated and written anew waits for the disk each time.
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(bytes([byte]))


def test_every_flipped_byte_gives_an_error_or_exactly_the_data(
    runtime: DatasetRuntime, small: Path
) -> None:
    expected = read(runtime, small)
    unnoticed = []
    for file in files_of(small):
        whole = file.read_bytes()
        for place in places(len(whole)):
            byte = whole[place]
            overwrite(file, place, byte ^ 1 << place % 8)
            if not is_noticed(runtime, small, expected):
                unnoticed.append((file.name, place))
            overwrite(file, place, byte)
    assert read(runtime, small) == expected
    # Some checksum covers every byte of every file.
    assert unnoticed == []


def test_a_cut_at_every_length_gives_an_error(runtime: DatasetRuntime, small: Path) -> None:
    expected = read(runtime, small)
    for file in files_of(small):
        whole = file.read_bytes()
        for length in reversed(places(len(whole))):
            os.truncate(file, length)
            assert is_noticed(runtime, small, expected), (file.name, length)
        file.write_bytes(whole + b"\0")
        assert is_noticed(runtime, small, expected), (file.name, "lengthened")
        file.write_bytes(whole)
    assert read(runtime, small) == expected
