"""Caches on disk: those of earlier releases read as they were written, and others can read ours."""

from __future__ import annotations

import json
import re
import shutil
import struct
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.ipc
import pytest
from blake3 import blake3

from dataset_rt import (
    CacheInput,
    DatasetRuntime,
    ReaderConfig,
    ShardCompression,
    UnsupportedCacheError,
    WriterConfig,
)
from tests.core.plain_reader import read_cache
from tests.data import make_v1

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def bits(row: dict[str, Any]) -> dict[str, object]:
    """Replace floats by their bits, which tell NaNs and zeros apart."""
    return {
        name: struct.pack("<d", value) if isinstance(value, float) else (type(value), value)
        for name, value in row.items()
    }


def contents(records: Sequence[CacheInput]) -> list[tuple[bytes, dict[str, object]]]:
    return [(bytes(record.data), bits(dict(record.metadata))) for record in records]


@pytest.fixture(params=make_v1.CACHES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("backend", ["map", "pread"])
def test_golden_caches_are_read_exactly(
    runtime: DatasetRuntime, name: str, backend: Literal["map", "pread"]
) -> None:
    records, _ = make_v1.CACHES[name]
    config = ReaderConfig(shuffle=False, validate_cache=True, backend=backend)
    with runtime.cached_dataset(make_v1.GOLDEN / name, reader_config=config) as dataset:
        found = [(sample.data, bits(sample.metadata)) for sample in dataset]
        assert found == contents(records)
        assert dataset.caches[0].name == name
        (batch,) = dataset.iter_batches(len(records))
        assert batch.data == [record.data for record in records]
        table = dataset.get_metadata().drop("cache_id", "sample_id", "weight")
        assert [bits(row) for row in table.to_dicts()] == [row for _, row in contents(records)]


def test_the_plain_reader_reads_golden_caches(name: str) -> None:
    records, compression = make_v1.CACHES[name]
    manifest, payloads, rows = read_cache(make_v1.GOLDEN / name)
    assert list(zip(payloads, map(bits, rows), strict=True)) == contents(records)
    assert manifest["name"] == name
    assert manifest["fingerprint"] == make_v1.FINGERPRINT
    assert manifest["compression"] == compression.algo
    assert manifest["compression_level"] == compression.level
    assert (manifest["dictionary"] is not None) == (records is make_v1.SIMILAR_RECORDS)
    assert manifest["payload_bytes"] == sum(len(payload) for payload in payloads)
    assert len(manifest["shards"]) > 1


def test_the_plain_reader_checks_every_file(tmp_path: Path, name: str) -> None:
    cache = shutil.copytree(make_v1.GOLDEN / name, tmp_path / "copy")
    files = [file for file in cache.rglob("*") if file.is_file()]
    for file in files:
        whole = file.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises((ValueError, KeyError)):
                read_cache(cache)
        file.write_bytes(whole)
    read_cache(cache)


def test_text_has_wide_offsets_in_one_golden_cache_only(name: str) -> None:
    schema = pyarrow.ipc.open_file(make_v1.GOLDEN / name / "metadata.arrow").schema
    assert schema.field("名前").type == (pa.large_string() if name == "wide" else pa.string())


def test_caches_with_offsets_of_either_width_are_one_dataset(runtime: DatasetRuntime) -> None:
    paths = [make_v1.GOLDEN / name for name in ("none", "wide")]
    rows = [row for _, row in contents(make_v1.RECORDS)] * 2
    names = [record.metadata["名前"] for record in make_v1.RECORDS] * 2
    with runtime.cached_dataset(paths, reader_config=ReaderConfig(shuffle=False)) as dataset:
        assert [bits(sample.metadata) for sample in dataset] == rows
        (batch,) = dataset.iter_batches(len(rows))
        assert batch.metadata["名前"].tolist() == names
        exported = pa.table(batch)
        assert exported["名前"].to_pylist() == names
        assert exported["名前"].type == pa.large_string()
        table = dataset.get_metadata()
        stored = table.drop("cache_id", "sample_id", "weight")
        assert [bits(row) for row in stored.to_dicts()] == rows
        dataset.update_metadata(table.reverse())
        assert [bits(sample.metadata) for sample in dataset] == rows[::-1]


def stored_as_written(cache: Path) -> dict[str, bytes]:
    """Return what does not depend on the release of a codec, by file."""
    manifest = json.loads((cache / "manifest.json").read_bytes())
    names = ["manifest.json", "metadata.arrow"]
    if manifest["compression"] == "none":
        files = [file.relative_to(cache) for file in cache.rglob("*") if file.is_file()]
        names = [str(file) for file in files]
    else:
        for field in ("stored_bytes", "shards", "index", "blocks", "dictionary", "digest"):
            del manifest[field]
    written = {name: (cache / name).read_bytes() for name in names}
    if manifest["compression"] != "none":
        written["manifest.json"] = json.dumps(manifest).encode()
    return written


@pytest.mark.parametrize("name", make_v1.WRITTEN)
def test_the_same_source_gives_the_bytes_of_the_golden_cache(tmp_path: Path, name: str) -> None:
    # Compressed bytes are left out: another release of LZ4 or zstd may find shorter ones.
    written = stored_as_written(make_v1.write(name, tmp_path))
    assert written == stored_as_written(make_v1.GOLDEN / name)


class Many:
    """More rows than a batch of metadata, and an index of several blocks."""

    name = "many"
    records: tuple[CacheInput, ...] = tuple(
        CacheInput(b"%d " % number * (number % 4 * 9), {"number": number, "half": number / 2})
        for number in range(70_000)
    )

    def __iter__(self) -> Iterator[CacheInput]:
        yield from self.records


@pytest.mark.parametrize("algo", ["none", "lz4", "zstd"])
def test_the_plain_reader_reads_what_is_written_now(
    write: Callable[..., Path], tmp_path: Path, algo: Literal["none", "lz4", "zstd"]
) -> None:
    config = WriterConfig(shard_compression=ShardCompression(algo=algo), max_shard_bytes=200_000)
    manifest, payloads, rows = read_cache(write(Many(), tmp_path, writer_config=config))
    assert payloads == [record.data for record in Many.records]
    assert rows == [record.metadata for record in Many.records]
    assert len(manifest["shards"]) > 1


def with_field(manifest: Path, old: str, new: str) -> None:
    """Change a manifest as another release would have written it, with its digest."""
    text = manifest.read_text(encoding="utf-8")
    digest = json.loads(text)["digest"]
    assert text.count(old) == 1
    head, _, tail = text.replace(old, new).rpartition(digest)
    manifest.write_text(
        head + blake3((head + "0" * 64 + tail).encode()).hexdigest() + tail, encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 1,', '"version": 2,', 'version "2", this release reads "1"'),
        (
            '"compression": "lz4"',
            '"compression": "brotli"',
            'compression "brotli", this release reads "none, lz4, zstd"',
        ),
        ('"xxh3-64-low32"', '"crc32c"', 'checksum "crc32c", this release reads "xxh3-64-low32"'),
        ('"dataset-rt cache"', '"other"', 'format "other", this release reads "dataset-rt cache"'),
    ],
)
def test_what_another_release_wrote_is_refused_clearly(
    runtime: DatasetRuntime, tmp_path: Path, old: str, new: str, message: str
) -> None:
    cache = shutil.copytree(make_v1.GOLDEN / "lz4", tmp_path / "lz4")
    with_field(cache / "manifest.json", old, new)
    with pytest.raises(UnsupportedCacheError) as refused:
        runtime.cached_dataset(cache)
    assert str(refused.value) == f"{cache / 'manifest.json'} has {message}"


def test_the_manifest_has_the_fields_that_the_page_describes(name: str) -> None:
    page = (make_v1.GOLDEN.parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
    section = page.partition("\n## manifest.json\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    described = [field for row in rows for field in re.findall(r"`(\w+)`", row)]
    assert list(json.loads((make_v1.GOLDEN / name / "manifest.json").read_bytes())) == described
