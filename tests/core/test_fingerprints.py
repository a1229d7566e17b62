"""Fingerprints: one text per JSON value, and a readable difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dataset_rt import (
    CacheInput,
    CacheWriteError,
    CacheWriteSuccess,
    ConfigError,
    DatasetRuntime,
    StaleCacheError,
)
from dataset_rt.fingerprints import canonical_json, differences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("value", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((1, 2), [1, 2]),
        ({"n": np.int64(3)}, {"n": 3}),
        (np.float32(0.5), 0.5),
    ],
)
def test_equal_values_have_one_text(value: Any, same: Any) -> None:
    assert canonical_json(value) == canonical_json(same)


@pytest.mark.parametrize(("value", "other"), [(1, True), (1, 1.0), ("1", 1), ([], {}), (0, False)])
def test_values_of_different_types_differ(value: Any, other: Any) -> None:
    assert canonical_json(value) != canonical_json(other)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: "a"}, "fingerprint has the key 1, expected str"),
        ({"a": [b"x"]}, r"fingerprint\['a'\]\[0\] is b'x' \(a bytes\), expected a JSON value"),
        (float("nan"), "fingerprint is nan, which JSON cannot hold"),
        ({"a": {1, 2}}, r"fingerprint\['a'\] is \{1, 2\}"),
        (object(), "fingerprint is <object"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        canonical_json(value)


def test_differences_name_each_changed_part() -> None:
    cached = canonical_json({"files": {"a": 1, "b": 2, "c": 3}, "version": [1, 2]})
    current = canonical_json({"files": {"a": 1, "b": 5, "d": 4}, "version": [1, 3]})
    assert differences(cached, current).splitlines() == [
        "files.b: the cache has 2, the source has 5",
        "files.c: only the cache has it, 3",
        "files.d: only the source has it, 4",
        "version[1]: the cache has 2, the source has 3",
    ]


def test_differences_of_whole_values() -> None:
    assert differences("1", "1.0") == "fingerprint: the cache has 1, the source has 1.0"
    assert differences(None, "3") == "the cache has no fingerprint, the source has 3"


def test_long_differences_are_cut() -> None:
    cached = canonical_json({str(number): number for number in range(50)})
    current = canonical_json({str(number): -number - 1 for number in range(50)})
    lines = differences(cached, current).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 40 more"


class TestFingerprint:
    """A finished cache is reused only for the fingerprint it was written from."""

    @pytest.fixture
    def write_with(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> Callable[..., Any]:
        def write_records(**attributes: Any) -> Any:
            (result,) = runtime.write_cache(
                list_source("records", [CacheInput(b"", {})], **attributes), tmp_path
            )
            return result

        return write_records

    @pytest.mark.parametrize(
        ("first", "later"),
        [
            ({"fingerprint": {"a": 1, "b": [1, 2]}}, {"fingerprint": {"b": (1, 2), "a": 1}}),
            ({"fingerprint": 1e300}, {"fingerprint": 1e300}),
            ({"fingerprint": "ünï"}, {"fingerprint": "ünï"}),
            ({"fingerprint": 1}, {"fingerprint": None}),
            ({"fingerprint": 1}, {}),
            ({}, {}),
        ],
    )
    def test_the_same_or_no_claim_is_reused(
        self, write_with: Callable[..., Any], first: dict[str, Any], later: dict[str, Any]
    ) -> None:
        assert write_with(**first) == write_with(**later)

    @pytest.mark.parametrize(
        ("first", "later", "message"),
        [
            (
                {"fingerprint": {"rows": 10, "v": 1}},
                {"fingerprint": {"rows": 12, "v": 1}},
                "rows: the cache has 10, the source has 12",
            ),
            ({}, {"fingerprint": 5}, "the cache has no fingerprint, the source has 5"),
            ({"fingerprint": 1}, {"fingerprint": True}, "the cache has 1, the source has true"),
        ],
    )
    def test_another_one_is_stale_and_shows_the_difference(
        self,
        write_with: Callable[..., Any],
        first: dict[str, Any],
        later: dict[str, Any],
        message: str,
    ) -> None:
        assert isinstance(write_with(**first), CacheWriteSuccess)
        stale = write_with(**later)
        assert isinstance(stale, CacheWriteError)
        assert isinstance(stale.exception, StaleCacheError)
        assert message in stale.message
        assert "records" in stale.message
        assert isinstance(write_with(**first), CacheWriteSuccess)
