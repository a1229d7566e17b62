"""A second reader of caches, written from docs/format.md; it shares no code with the product."""

import json
import struct
from pathlib import Path
from typing import Any

import lz4.block
import pyarrow.ipc
import xxhash
from blake3 import blake3
from zstandard import ZstdCompressionDict, ZstdDecompressor


def require(condition: object, what: str) -> None:
    if not condition:
        raise ValueError(what)


def checksum(data: bytes, number: int) -> int:
    return xxhash.xxh3_64_intdigest(data, seed=number) & 0xFFFF_FFFF


def block_checksums(data: bytes) -> list[tuple[int]]:
    return [(checksum(data[i : i + 65536], i // 65536),) for i in range(0, len(data), 65536)]


def read_cache(cache: Path) -> tuple[dict[str, Any], list[bytes], list[dict[str, Any]]]:
    """Return manifest, payloads and metadata rows, with every checksum and digest compared."""
    manifest: dict[str, Any] = json.loads(text := (cache / "manifest.json").read_bytes())
    require((manifest["format"], manifest["version"]) == ("dataset-rt cache", 1), "version")
    head, digest, tail = text.rpartition(manifest["digest"].encode())
    require(blake3(head + b"0" * 64 + tail).hexdigest().encode() == digest, "manifest.json")

    def contents(name: str, entry: dict[str, Any]) -> bytes:
        data = (cache / name).read_bytes()
        require((len(data), blake3(data).hexdigest()) == (entry["bytes"], entry["blake3"]), name)
        return data

    index = contents("index.bin", manifest["index"])
    metadata = contents("metadata.arrow", manifest["metadata"])
    blocks = struct.iter_unpack("<I", contents("blocks.bin", manifest["blocks"]))
    require([*blocks] == block_checksums(index) + block_checksums(metadata), "blocks.bin")
    entry = manifest["dictionary"]
    dictionary = ZstdCompressionDict(contents("dictionary.bin", entry) if entry else b"")
    zstd = ZstdDecompressor(dict_data=dictionary)
    samples, codec = manifest["samples"], manifest["compression"]
    words = (samples + 1) * (1 if codec == "none" else 2)
    numbers = struct.unpack(f"<{words}Q{samples}I", index)
    addresses, ends, checksums = numbers, numbers[words - samples - 1 :], numbers[words:]
    shards = b"".join(contents(f"shards/{i:06}.bin", s) for i, s in enumerate(manifest["shards"]))
    payloads: list[bytes] = []
    for sample in range(samples):
        data = shards[addresses[sample] : addresses[sample + 1]]
        require(checksum(data, sample) == checksums[sample], f"checksum of {sample}")
        if len(data) < (size := ends[sample + 1] - ends[sample]):
            data = lz4.block.decompress(data, size) if codec == "lz4" else zstd.decompress(data)
        require(len(data) == size, f"length of {sample}")
        payloads += [data]
    return manifest, payloads, pyarrow.ipc.open_file(metadata).read_all().to_pylist()
