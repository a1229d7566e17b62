"""The profile of a call of ``write_cache``: how long the parts of each build took, as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dataset_rt.exceptions import CacheIOError
from dataset_rt.results import CacheWriteSuccess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataset_rt.building import Outcome

_VERSION = 1


def write_profile(path: str, outcomes: Iterable[Outcome]) -> None:
    """Write the profile of all builds; sources whose cache was finished took no time.

    Raises:
        CacheIOError: The file cannot be written.
    """
    sources = [
        {"name": outcome.result.source_name, "state": _state(outcome), **(outcome.figures or {})}
        for outcome in outcomes
    ]
    text = json.dumps({"version": _VERSION, "sources": sources}, indent=2) + "\n"
    staged = Path(f"{path}.part")
    try:
        staged.write_text(text, encoding="utf-8")
        os.replace(staged, path)  # noqa: PTH105 - the target stays a plain string
    except OSError as error:
        raise CacheIOError(
            error.errno, f"cannot write the profile of the writer: {error.strerror}", path
        ) from error


def _state(outcome: Outcome) -> str:
    if not isinstance(outcome.result, CacheWriteSuccess):
        return "failed"
    return "reused" if outcome.figures is None else "built"
