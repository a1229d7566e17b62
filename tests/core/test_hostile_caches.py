"""Caches changed by someone who made the checksums right again: an error, or all readers agree.

The parsers of the store are fuzzed in ``crates/dataset-rt-store/tests/fuzz``. Here such caches go
through everything above: read-ahead, batches, tables and the binding.
"""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest
import xxhash
from blake3 import blake3

from dataset_rt import CachedDataset, CorruptCacheError, DatasetRuntime, ReaderConfig
from tests.data import make_v1

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NUM_CASES = 60
BLOCK_BYTES = 64 * 1024
NO_DIGEST = "0" * 64
NUMBERS = [0, 1, 2**31, 2**32, 2**40, 2**63 - 1, 2**64 - 1]

Files = dict[str, bytes]


def checksum(data: bytes, number: int) -> int:
    return int(xxhash.xxh3_64_intdigest(data, seed=number)) & 0xFFFF_FFFF


def entry_of(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "blake3": blake3(data).hexdigest()}


def change(data: bytes, chance: random.Random) -> bytes:
    """Change a few bits, words or pieces; the length stays."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(data))
        word = place & ~7
        match chance.randrange(4):
            case 0:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[word : word + 8] = chance.choice(NUMBERS).to_bytes(8, "little")
            case 2:
                number = int.from_bytes(changed[word : word + 8], "little")
                number = (number + chance.randrange(-8, 9)) % 2**64
                changed[word : word + 8] = number.to_bytes(8, "little")
            case _:
                piece = changed[place : place + chance.randrange(1, 32)]
                start = chance.randrange(len(data))
                changed[start : start + len(piece)] = piece
    return bytes(changed[: len(data)])


def seal(files: Files) -> None:
    """Make record checksums, block checksums and digests agree with the files."""
    manifest = json.loads(files["manifest.json"])
    samples = manifest["samples"]
    words = (samples + 1) * (1 if manifest["compression"] == "none" else 2)
    addresses = struct.unpack(f"<{words}Q", files["index.bin"][: words * 8])
    shards = [f"shards/{number:06}.bin" for number in range(len(manifest["shards"]))]
    records = b"".join(files[shard] for shard in shards)
    checksums = [
        checksum(records[addresses[sample] : addresses[sample + 1]], sample)
        for sample in range(samples)
    ]
    index = files["index.bin"][: words * 8] + struct.pack(f"<{samples}I", *checksums)
    files["index.bin"] = index
    files["blocks.bin"] = b"".join(
        struct.pack("<I", checksum(file[start : start + BLOCK_BYTES], start // BLOCK_BYTES))
        for file in (index, files["metadata.arrow"])
        for start in range(0, len(file), BLOCK_BYTES)
    )
    manifest["index"] = entry_of(index)
    manifest["metadata"] = entry_of(files["metadata.arrow"])
    manifest["blocks"] = entry_of(files["blocks.bin"])
    if manifest["dictionary"] is not None:
        manifest["dictionary"] = entry_of(files["dictionary.bin"])
    for entry, shard in zip(manifest["shards"], shards, strict=True):
        entry.update(entry_of(files[shard]))
    manifest["digest"] = NO_DIGEST
    text = json.dumps(manifest)
    head, _, tail = text.rpartition(NO_DIGEST)
    files["manifest.json"] = (head + blake3(text.encode()).hexdigest() + tail).encode()


def write(files: Files, cache: Path) -> None:
    for name, data in files.items():
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(data)


def outcome(read: Callable[[], list[bytes]]) -> list[bytes] | None:
    """Return the payloads, or None for damage; any other error is a failure."""
    try:
        return read()
    except CorruptCacheError:
        return None


def payloads_one_by_one(dataset: CachedDataset) -> list[bytes]:
    (cache,) = dataset.caches
    return [dataset.get_item(cache.id, sample).data for sample in range(cache.samples)]


def check(dataset: CachedDataset) -> bool:
    """Read in every way; the ways agree. Return whether all could be read."""
    iterated = outcome(lambda: [sample.data for sample in dataset])
    single = outcome(lambda: payloads_one_by_one(dataset))
    batched = outcome(lambda: [data for batch in dataset.iter_batches(7) for data in batch.data])
    assert iterated == single
    assert batched is None or iterated is None or batched == iterated
    try:
        dataset.get_metadata()
    except CorruptCacheError:
        # Then some row is damaged, and no sample comes without its row.
        assert iterated is None
    return iterated is not None


@pytest.mark.parametrize("name", make_v1.CACHES)
def test_hostile_caches_give_an_error_or_the_same_by_every_way(
    runtime: DatasetRuntime, tmp_path: Path, name: str
) -> None:
    golden = make_v1.GOLDEN / name
    whole = {
        str(file.relative_to(golden)): file.read_bytes()
        for file in golden.rglob("*")
        if file.is_file()
    }
    sealed = dict(whole)
    seal(sealed)
    assert sealed["index.bin"] == whole["index.bin"]
    assert sealed["blocks.bin"] == whole["blocks.bin"]
    targets = sorted(whole.keys() - {"manifest.json", "blocks.bin"})
    read = []
    for case in range(NUM_CASES):
        chance = random.Random(case)
        files = dict(whole)
        target = chance.choice(targets)
        files[target] = change(files[target], chance)
        seal(files)
        cache = tmp_path / str(case)
        write(files, cache)
        config = ReaderConfig(shuffle=False, backend="map" if case % 2 else "pread")
        try:
            dataset = runtime.cached_dataset(cache, reader_config=config)
        except CorruptCacheError:
            read.append(False)
            continue
        with dataset:
            read.append(check(dataset))
    # Changes that are always refused, or never, would test little.
    assert True in read
    assert False in read
