"""The PyTorch side of DatasetRT: an exact, resumable DataLoader, the same for any workers.

Most people call ``CachedDataset.to_torch_dataloader`` and never import this package themselves.
"""

from dataset_rt_torch.audit import ClassCount, LoaderAudit
from dataset_rt_torch.iterable_dataset import CachedIterableDataset, make_iterable_dataset
from dataset_rt_torch.loader import CachedDataLoader, make_dataloader
from dataset_rt_torch.map_dataset import CachedMapDataset, make_map_dataset
from dataset_rt_torch.stats import LoaderStats, ProcessStats
from dataset_rt_torch.windows import Window

__all__ = [
    "CachedDataLoader",
    "CachedIterableDataset",
    "CachedMapDataset",
    "ClassCount",
    "LoaderAudit",
    "LoaderStats",
    "ProcessStats",
    "Window",
    "make_dataloader",
    "make_iterable_dataset",
    "make_map_dataset",
]
