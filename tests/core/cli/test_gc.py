"""``dataset-rt gc`` removes what dead builds left, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataset_rt import CacheInput, DatasetRuntime
from tests.core.cli.running import Outcome, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dataset_rt import DatasetRuntime


def test_gc_removes_abandoned_builds(
    run: Callable[..., Outcome], abandoned_base: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    finished = write(list_source("finished", list(records())), abandoned_base)
    outcome = run("gc", abandoned_base)
    assert outcome.status == 0
    assert "removed: unfinished, " in outcome.output
    assert f"1 abandoned build removed from {abandoned_base}, " in outcome.output
    assert list(abandoned_base.iterdir()) == [finished]
    assert run("gc", abandoned_base).output == f"no abandoned builds in {abandoned_base}\n"


def test_gc_as_json_says_how_many_bytes_went(
    run: Callable[..., Outcome], abandoned_base: Path
) -> None:
    occupied = sum(file.stat().st_size for file in abandoned_base.rglob("*") if file.is_file())
    document = run("gc", abandoned_base, "--json").document
    assert [entry["name"] for entry in document["removed"]] == ["unfinished"]
    assert document["removed_bytes"] == document["removed"][0]["stored_bytes"] == occupied
    assert list(abandoned_base.iterdir()) == []


def test_gc_leaves_all_as_it_is_in_a_dry_run(
    run: Callable[..., Outcome], abandoned_base: Path
) -> None:
    before = sorted(abandoned_base.rglob("*"))
    outcome = run("gc", "--dry-run", abandoned_base)
    assert "would be removed: unfinished, " in outcome.output
    assert sorted(abandoned_base.rglob("*")) == before
    document = run("gc", "--dry-run", abandoned_base, "--json").document
    assert document["is_dry_run"]
    assert len(document["removed"]) == 1


def test_gc_leaves_a_running_build_alone(
    run: Callable[..., Outcome], runtime: DatasetRuntime, tmp_path: Path
) -> None:
    outcomes: list[Outcome] = []

    class Building:
        name = "building"

        def __iter__(self) -> Iterator[CacheInput]:
            yield CacheInput(b"first", {})
            outcomes.append(run("gc", tmp_path))
            outcomes.append(run("gc", tmp_path, "--json"))

    runtime.write_cache(Building(), tmp_path)
    text, as_json = outcomes
    assert text.output.startswith("left alone: building, ")
    assert [entry["name"] for entry in as_json.document["building"]] == ["building"]
    assert as_json.document["removed"] == []
    assert run("verify", tmp_path).status == 0


def test_gc_of_a_cache_is_refused(run: Callable[..., Outcome], pets: Path) -> None:
    outcome = run("gc", pets)
    assert outcome.status == 2
    assert outcome.errors == (
        f"error: {pets} is a cache, expected the directory that holds caches\n"
    )
    assert pets.exists()
