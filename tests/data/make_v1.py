"""Write the golden caches of format version 1: ``python tests/data/make_v1.py <directory>``.

The caches in ``tests/data/v1`` were written once by this script, by the release that introduced the
format. They stand for what people have on their disks, so they are never written again: every later
release reads them. What is in them is below, so that tests can compare without asking the product.

One of them, ``wide``, has text with offsets of 64 bits. A writer gives text such offsets only where
a record batch has more than 2 GiB of it, so this cache was written by a build in which that limit,
``MAX_NARROW_TEXT_BYTES`` in ``metadata_assembly.rs``, was 0.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataset_rt import (
    CacheInput,
    CacheWriteSuccess,
    DatasetRuntime,
    ShardCompression,
    WriterConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "v1"


def double(bits: int) -> float:
    """Return the double with these bits; a NaN keeps its payload."""
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(value)


def noise(number_of_bytes: int) -> bytes:
    """Return bytes that no codec makes smaller."""
    return hashlib.shake_128(b"noise").digest(number_of_bytes)


def row(truth: object, number: object, height: object, name: object) -> dict[str, Any]:
    return {"truth": truth, "number": number, "Höhe": height, "名前": name, "nothing": None}


# Several shards in each form of storage: empty records at the start, in the middle and at the end
# of a shard, and records that are larger than a shard.
RECORDS = [
    CacheInput(b"", row(None, None, None, None)),
    CacheInput(b"\0", row(True, 2**63 - 1, double(0x8000_0000_0000_0000), "")),
    CacheInput(b"again and again, " * 40, row(False, -(2**63), float("inf"), "a\0b")),
    CacheInput(b"", row(True, 0, float("-inf"), "größer")),
    CacheInput(noise(300), row(None, -1, double(0x7FF8_0000_0000_0123), "e\u0301")),
    CacheInput(b"", row(False, 1, double(0xFFF8_DEAD_BEEF_0001), "\U0001f9ed")),
    CacheInput(b"", row(True, None, 5e-324, "日本語")),
    CacheInput(noise(64) + bytes(2_000), row(False, 2**53 + 1, 1.7976931348623157e308, "x" * 200)),
    CacheInput(b'{"last": "but one"}', row(True, 7, 0.1, None)),
    CacheInput(b"", row(None, 8, None, "last")),
]
# Small records that resemble each other, which is what dictionaries are for.
SIMILAR_RECORDS = [
    CacheInput(
        f'{{"identifier": {number * 7_919}, "category": "kind {number % 7}", '
        f'"description": "an entry like many others, number {number}"}}'.encode()
        if number % 50
        else b"",
        {"number": number, "名前": f"entry {number}" if number % 3 else None},
    )
    for number in range(200)
]

ZSTD = ShardCompression(algo="zstd", level=3, dictionary=False)
# By the name of the source: what is in the cache, and how it is stored.
CACHES = {
    "none": (RECORDS, ShardCompression(algo="none")),
    "wide": (RECORDS, ShardCompression(algo="none")),
    "lz4": (RECORDS, ShardCompression(algo="lz4")),
    "zstd": (RECORDS, ZSTD),
    "Wörterbuch 辞書": (SIMILAR_RECORDS, ShardCompression(algo="zstd", level=19)),
}
# Those that every writer gives the same metadata.
WRITTEN = [name for name in CACHES if name != "wide"]
MAX_SHARD_BYTES = 400
FINGERPRINT = {"release": 1, "Eingabe": ["ä", None, 0.5]}


class GoldenSource:
    """The source of one golden cache."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fingerprint = FINGERPRINT

    def __iter__(self) -> Iterator[CacheInput]:
        records, _ = CACHES[self.name]
        yield from records


def write(name: str, base: Path) -> Path:
    """Write one of the caches into a directory and return its path."""
    _, compression = CACHES[name]
    config = WriterConfig(max_shard_bytes=MAX_SHARD_BYTES, shard_compression=compression)
    (result,) = DatasetRuntime().write_cache(GoldenSource(name), base, writer_config=config)
    if not isinstance(result, CacheWriteSuccess):
        raise TypeError(result)
    return Path(result.path)


if __name__ == "__main__":
    for cache in WRITTEN:
        write(cache, Path(sys.argv[1]))
