"""Results: matched by keyword and position, compared without their exception."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest

from dataset_rt import (
    CacheSourcesDatasetError,
    CacheSourcesDatasetSuccess,
    CacheWriteError,
    CacheWriteSuccess,
)


def described(result: object) -> tuple[object, ...]:
    match result:
        case CacheWriteSuccess(source_name, path):
            return "written", source_name, path
        case CacheWriteError(source_name, message):
            return "failed", source_name, message
        case CacheSourcesDatasetSuccess(dataset=dataset, results=results):
            return "open", dataset, results
        case CacheSourcesDatasetError(results=results, message=message):
            return "not open", results, message
    return ()


def test_results_match_by_position_and_keyword() -> None:
    success = CacheWriteSuccess("digits", Path("cache/digits"))
    failure = CacheWriteError("digits", "broken", exception=ValueError("broken"))
    dataset = cast("Any", object())
    assert described(success) == ("written", "digits", Path("cache/digits"))
    assert described(failure) == ("failed", "digits", "broken")
    assert described(CacheSourcesDatasetSuccess(dataset, (success,))) == (
        "open",
        dataset,
        (success,),
    )
    assert described(CacheSourcesDatasetError((failure,), "broken")) == (
        "not open",
        (failure,),
        "broken",
    )


def test_the_exception_takes_no_part_in_comparison() -> None:
    with_exception = CacheWriteError("digits", "broken", exception=ValueError("broken"))
    assert with_exception == CacheWriteError("digits", "broken")
    assert "exception" not in repr(with_exception)


def test_results_are_frozen() -> None:
    result = CacheWriteError("digits", "broken")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.message = "mended"  # type: ignore[misc]
