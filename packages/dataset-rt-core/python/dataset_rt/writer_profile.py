"""The profile of a call of ``write_cache``: how long the parts of each build took, as JSON."""

from __future__ import annotations

import errno
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from dataset_rt.exceptions import CacheIOError
from dataset_rt.results import CacheWriteSuccess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataset_rt.building import Outcome

_VERSION = 1


def check_profile_path(path: str) -> None:
    """Refuse a path that cannot be written to, before anything is built.

    Raises:
        CacheIOError: The directory of the file does not exist or may not be written to.
    """
    folder = Path(path).parent
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return
    code = errno.EACCES if folder.is_dir() else errno.ENOENT
    raise CacheIOError(code, f"cannot write the profile of the writer: {os.strerror(code)}", path)


def write_profile(path: str, outcomes: Iterable[Outcome]) -> None:
    """Write the profile of all builds; sources whose cache was finished took no time.

    That it cannot be written is a warning: the caches are complete.
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
        warnings.warn(
            f"cannot write the profile of the writer, {path}: {error.strerror}",
            UserWarning,
            stacklevel=3,
        )


def _state(outcome: Outcome) -> str:
    if not isinstance(outcome.result, CacheWriteSuccess):
        return "failed"
    return "reused" if outcome.figures is None else "built"
