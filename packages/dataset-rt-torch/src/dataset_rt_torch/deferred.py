"""Public names that loading workers do without: their modules are imported when they are used."""

from __future__ import annotations

import importlib
import sys

_MODULES = {
    "CachedDataLoader": "loader",
    "CachedIterableDataset": "iterable_dataset",
    "CachedMapDataset": "map_dataset",
    "ClassCount": "audit",
    "LoaderAudit": "audit",
    "LoaderStats": "stats",
    "ProcessStats": "stats",
    "SharedMemoryError": "shared_memory",
    "Window": "windows",
    "WorkerError": "worker_death",
    "WorkerTimeoutError": "worker_death",
    "make_dataloader": "loader",
    "make_iterable_dataset": "iterable_dataset",
    "make_map_dataset": "map_dataset",
}


def load(name: str) -> object:
    """Return a public name that ``dataset_rt_torch`` does not hold; its ``__getattr__``."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dataset_rt_torch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dataset_rt_torch.{_MODULES[name]}"), name)


def names() -> list[str]:
    """Return all names of ``dataset_rt_torch``; its ``__dir__``."""
    return sorted({*vars(sys.modules["dataset_rt_torch"]), *_MODULES})
