"""Public names that need a library that is slow to import: they are imported when they are used."""

from __future__ import annotations

import importlib
import sys

_CONFIGURATIONS = ("ReaderConfig", "ShardCompression", "WriterConfig", "WriterProfilerConfig")


def load(name: str) -> object:
    """Return a public name that ``dataset_rt`` does not hold; its ``__getattr__``."""
    if name not in _CONFIGURATIONS:
        raise AttributeError(f"module 'dataset_rt' has no attribute {name!r}")
    return getattr(importlib.import_module("dataset_rt.config"), name)


def names() -> list[str]:
    """Return all names of ``dataset_rt``; its ``__dir__``."""
    return sorted({*vars(sys.modules["dataset_rt"]), *_CONFIGURATIONS})
