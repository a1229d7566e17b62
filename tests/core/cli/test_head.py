"""``dataset-rt head`` shows the first samples as they are."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from tests.core.cli.running import Outcome, damage_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_head_shows_the_first_samples(run: Callable[..., Outcome], pets: Path) -> None:
    outcome = run("head", pets, "-n", 2)
    assert outcome.status == 0
    assert outcome.output == (
        "pets ü: 2 of 40 samples\n"
        "sample 0, 0 B\n"
        "  label    'cat'\n"
        "  number   0\n"
        "  half     nan\n"
        "  even     True\n"
        "  nothing  None\n"
        "  payload  b''\n"
        "sample 1, 5 B\n"
        "  label    'dog'\n"
        "  number   1\n"
        "  half     0.5\n"
        "  even     False\n"
        "  nothing  None\n"
        "  payload  b'\\x1b[2Jx'\n"
    )


def test_head_as_json_holds_values_and_bytes(run: Callable[..., Outcome], pets: Path) -> None:
    document = run("head", pets, "--json", "--count", 40).document
    assert [sample["sample_id"] for sample in document["samples"]] == list(range(40))
    first, last = document["samples"][0], document["samples"][-1]
    assert first["metadata"] == {
        "label": "cat",
        "number": 0,
        "half": "NaN",
        "even": True,
        "nothing": None,
    }
    assert last["bytes"] == 43
    assert base64.b64decode(last["first_bytes_base64"]) == b"\x1b[2J" + b"x" * 28
    assert last["metadata"]["label"] == "owl\x1b[31m"


def test_head_shows_all_samples_where_there_are_fewer(
    run: Callable[..., Outcome], pets: Path
) -> None:
    outcome = run("head", pets, "-n", 1000)
    assert outcome.output.startswith("pets ü: 40 of 40 samples\n")
    assert outcome.output.count("\nsample ") == 40


def test_head_of_a_damaged_sample_fails(run: Callable[..., Outcome], fresh_cache: Path) -> None:
    damage_sample(fresh_cache, 3)
    outcome = run("head", fresh_cache)
    assert outcome.status == 1
    assert "sample 3" in outcome.errors
    assert outcome.output.count("\nsample ") == 3
    assert list(run("head", fresh_cache, "--json").document) == ["error"]


def test_head_of_a_directory_names_its_caches(run: Callable[..., Outcome], pets: Path) -> None:
    outcome = run("head", pets.parent)
    assert outcome.status == 2
    assert outcome.errors == (
        f"error: {pets.parent} is no cache, but a directory of caches\n"
        "hint: name one of them: pets ü\n"
    )
