"""``dataset-rt info`` tells what caches and directories of caches consist of."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from dataset_rt import CacheInput, DatasetRuntime, ShardCompression, WriterConfig
from tests.core.cli.running import Outcome, records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_info_describes_a_cache(run: Callable[..., Outcome], pets: Path) -> None:
    outcome = run("info", pets)
    assert outcome.status == 0
    lines = outcome.output.splitlines()
    assert lines[0] == "pets ü"
    fields = {line[2:13].strip(): line[15:] for line in lines[1:]}
    with DatasetRuntime(1).cached_dataset(pets) as dataset:
        assert fields["cache id"] == str(dataset.caches[0].id)
    assert fields["path"] == str(pets)
    assert fields["samples"] == "40"
    assert fields["payload"] == "936 B"
    assert fields["compression"] == "none"
    assert fields["columns"] == (
        "label (str), number (int), half (float), even (bool), nothing (None)"
    )
    assert fields["fingerprint"] == '{"version": 3}'


def test_info_shows_how_a_cache_is_compressed(
    run: Callable[..., Outcome], tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    config = WriterConfig(shard_compression=ShardCompression(algo="zstd", level=5))
    source = list_source("text", [CacheInput(b"abc" * 1000, {})] * 10)
    path = write(source, tmp_path, writer_config=config)
    (entry,) = run("info", path, "--json").document["entries"]
    assert (entry["compression"], entry["compression_level"]) == ("zstd", 5)
    assert entry["payload_bytes"] == 30_000
    assert 0 < entry["stored_bytes"] < 3_000
    ratio = 30_000 / entry["stored_bytes"]
    text = run("info", path).output
    assert f"ratio {ratio:.2f}\n" in text
    assert "zstd, level 5" in text


def test_info_as_json_holds_what_the_manifest_says(run: Callable[..., Outcome], pets: Path) -> None:
    (entry,) = run("info", "--json", pets).document["entries"]
    manifest = json.loads((pets / "manifest.json").read_text())
    assert entry["kind"] == "cache"
    for name in ("name", "cache_id", "samples", "payload_bytes", "stored_bytes", "fingerprint"):
        assert entry[name] == manifest[name]
    assert entry["shards"] == len(manifest["shards"])
    assert entry["columns"][1] == {"name": "number", "type": "int"}


def test_info_lists_what_a_directory_holds(
    run: Callable[..., Outcome], abandoned_base: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    write(list_source("finished", list(records())), abandoned_base)
    (entry,) = run("info", abandoned_base, "--json").document["entries"]
    assert entry["kind"] == "directory"
    states = {found["name"]: found["state"] for found in entry["caches"]}
    assert states == {"finished": "complete", "unfinished": "abandoned"}
    outcome = run("info", abandoned_base)
    assert f"{abandoned_base}: 2 entries\n" in outcome.output
    assert "\nfinished    complete" in outcome.output
    assert "\nunfinished  abandoned" in outcome.output


def test_info_finds_caches_among_directories_of_any_name(
    run: Callable[..., Outcome], tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    for name in ("manifest.json", "index.bin", "moved"):
        write(list_source(name, list(records())), tmp_path)
    # No source could have such names.
    (tmp_path / "moved").rename(tmp_path / "con:")
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    (entry,) = run("info", tmp_path, "--json").document["entries"]
    found = {cache["name"]: (cache["state"], cache["samples"]) for cache in entry["caches"]}
    assert found == dict.fromkeys(("manifest.json", "index.bin", "moved"), ("complete", 40))
    assert run("verify", tmp_path).status == 0


def test_info_goes_on_after_a_path_that_fails(
    run: Callable[..., Outcome], pets: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    outcome = run("info", missing, pets)
    assert outcome.status == 2
    assert outcome.errors == f"error: no such file or directory: {missing}\n"
    assert outcome.output.startswith("pets ü\n")
    outcome = run("info", missing, pets, "--json")
    assert outcome.status == 2
    assert outcome.document["error"] == f"no such file or directory: {missing}"
    assert [entry.get("name") for entry in outcome.document["entries"]] == [None, "pets ü"]


def test_info_tells_a_damaged_cache_by_its_status(
    run: Callable[..., Outcome], fresh_cache: Path
) -> None:
    manifest = fresh_cache / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"samples": 40', '"samples": 41', 1))
    outcome = run("info", fresh_cache)
    assert outcome.status == 1
    assert outcome.errors.startswith("error: ")
    assert "manifest.json" in outcome.errors
