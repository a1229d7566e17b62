"""The PyTorch side of DatasetRT: an exact, resumable DataLoader, the same for any workers.

Most people call ``CachedDataset.to_torch_dataloader`` and never import this package themselves.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from dataset_rt_torch.audit import ClassCount, LoaderAudit
    from dataset_rt_torch.iterable_dataset import CachedIterableDataset, make_iterable_dataset
    from dataset_rt_torch.loader import CachedDataLoader, make_dataloader
    from dataset_rt_torch.map_dataset import CachedMapDataset, make_map_dataset
    from dataset_rt_torch.shared_memory import SharedMemoryError
    from dataset_rt_torch.stats import LoaderStats, ProcessStats
    from dataset_rt_torch.windows import Window
    from dataset_rt_torch.worker_death import WorkerError, WorkerTimeoutError
else:
    # A worker that starts needs few of the modules, and is waited for.
    from dataset_rt_torch import deferred as _deferred

    __getattr__ = _deferred.load
    __dir__ = _deferred.names

__all__ = [
    "CachedDataLoader",
    "CachedIterableDataset",
    "CachedMapDataset",
    "ClassCount",
    "LoaderAudit",
    "LoaderStats",
    "ProcessStats",
    "SharedMemoryError",
    "Window",
    "WorkerError",
    "WorkerTimeoutError",
    "make_dataloader",
    "make_iterable_dataset",
    "make_map_dataset",
]
