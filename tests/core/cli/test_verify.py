"""``dataset-rt verify`` finds every damage, and says so by its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.core.cli.running import Outcome, damage_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_verify_of_intact_caches_says_so(run: Callable[..., Outcome], pets: Path) -> None:
    outcome = run("verify", pets.parent)
    assert outcome.status == 0
    assert outcome.output.startswith(f"{pets}: 40 samples, ")
    assert outcome.output.endswith(", intact\n")
    (entry,) = run("verify", pets, "--json").document["caches"]
    assert entry["is_intact"]
    assert entry["read_bytes"] == sum(
        file.stat().st_size
        for file in pets.rglob("*")
        if file.is_file() and file.name != "manifest.json"
    )


def test_verify_lists_every_damaged_sample(run: Callable[..., Outcome], fresh_cache: Path) -> None:
    for sample in (3, 17, 39):
        damage_sample(fresh_cache, sample)
    outcome = run("verify", fresh_cache)
    assert outcome.status == 1
    for sample in (3, 17, 39):
        assert f"sample {sample} " in outcome.output
    outcome = run("verify", fresh_cache, "--json")
    assert outcome.status == 1
    (entry,) = outcome.document["caches"]
    assert not entry["is_intact"]
    assert [damage["sample"] for damage in entry["damages"]] == [None, 3, 17, 39]


def test_verify_goes_on_after_a_damaged_cache(
    run: Callable[..., Outcome], fresh_cache: Path, pets: Path
) -> None:
    (fresh_cache / "index.bin").write_bytes(b"")
    outcome = run("verify", fresh_cache, pets, "--json")
    assert outcome.status == 1
    first, second = outcome.document["caches"]
    assert "index.bin" in first["damages"][0]["message"]
    assert second["is_intact"]


def test_verify_of_a_directory_includes_a_cache_that_cannot_be_opened(
    run: Callable[..., Outcome], fresh_cache: Path
) -> None:
    (fresh_cache / "manifest.json").write_text("{}")
    outcome = run("verify", fresh_cache.parent)
    assert outcome.status == 1
    assert "manifest.json" in outcome.output


def test_verify_of_no_cache_is_no_success(run: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = run("verify", tmp_path)
    assert outcome == (2, "", f"error: {tmp_path} holds no cache\n")


def test_verify_of_a_cache_without_manifest_is_no_success(
    run: Callable[..., Outcome], fresh_cache: Path
) -> None:
    (fresh_cache / "manifest.json").unlink()
    outcome = run("verify", fresh_cache)
    assert outcome.status == 2
    assert "manifest.json" in outcome.errors
