"""The legacy iterable-style torch dataset, which only works in the training process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torch.utils.data import IterableDataset, get_worker_info

from dataset_rt.exceptions import ConfigError
from dataset_rt.records import CachedSample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataset_rt.dataset import CachedDataset

_REFUSAL = (
    "to_torch_iterable_dataset works with num_workers=0 only, where each worker would draw the "
    "whole stream\n"
    "hint: use to_torch_dataloader, which shares the stream among workers"
)


class CachedIterableDataset(IterableDataset[CachedSample]):
    """The samples of a dataset, one epoch per iterator; each iterator continues the stream.

    Edits of the dataset show in the next iterator, as in the dataset itself.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> import tempfile
        >>> from dataset_rt import CacheInput, DatasetRuntime
        >>> class Squares:
        ...     name = "squares"
        ...
        ...     def __iter__(self):
        ...         for number in range(10):
        ...             yield CacheInput(str(number**2).encode(), {"number": number})
        >>> runtime = DatasetRuntime(num_workers=1)
        >>> with tempfile.TemporaryDirectory() as base:
        ...     dataset = runtime.from_cache_sources(Squares(), base).dataset
        ...     samples = dataset.to_torch_iterable_dataset()
        ...     loader = DataLoader(samples, batch_size=4, collate_fn=list)
        ...     [len(batch) for batch in loader]
        [4, 4, 2]
    """

    def __init__(self, dataset: CachedDataset) -> None:
        """Wrap a dataset."""
        self._dataset = dataset

    def __len__(self) -> int:
        """Return the number of samples of an epoch."""
        return len(self._dataset)

    def __iter__(self) -> Iterator[CachedSample]:
        """Return an iterator over the next epoch.

        Raises:
            ConfigError: It runs in a loading worker.
        """
        if get_worker_info() is not None:
            raise ConfigError(_REFUSAL)
        return iter(self._dataset)

    def __reduce__(self) -> NoReturn:
        """Refuse to travel to a worker process."""
        raise ConfigError(_REFUSAL)


def make_iterable_dataset(dataset: CachedDataset) -> CachedIterableDataset:
    """Build the dataset that ``CachedDataset.to_torch_iterable_dataset`` returns.

    Args:
        dataset: The dataset to iterate.
    """
    return CachedIterableDataset(dataset)
