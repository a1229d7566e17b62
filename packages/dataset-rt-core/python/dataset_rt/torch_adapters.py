"""How a dataset reaches PyTorch: methods that delegate to ``dataset_rt_torch`` when called."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from multiprocessing.context import BaseContext
    from types import ModuleType

    from dataset_rt_torch import CachedDataLoader, CachedIterableDataset, CachedMapDataset


class TorchAdapters:
    """The PyTorch side of a dataset; without PyTorch each method says what to install."""

    __slots__ = ()

    def to_torch_dataloader(
        self,
        *,
        batch_size: int = 1,
        sample_transform_fn: Callable[..., Any] | None = None,
        batch_transform_fn: Callable[..., Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        shuffle: bool = True,
        replacement: bool = True,
        seed: int | Literal["random"] = "random",
        samples_per_epoch: int | None = None,
        worker_partition: Literal["replicate", "split"] | None = None,
        num_workers: int | Literal["auto"] = "auto",
        native_num_workers: int | Literal["auto"] = "auto",
        drop_last: bool = False,
        pin_memory: bool = False,
        timeout: float = 0,
        multiprocessing_context: str | BaseContext | None = "spawn",
        worker_init_fn: Callable[[int], Any] | None = None,
        prefetch_factor: int | Literal["auto"] | None = "auto",
        persistent_workers: bool | Literal["auto"] = "auto",
        work_dir: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        decode: Literal["arrays"] | None = None,
        verbose: bool = False,
        dataloader_kwargs: Mapping[str, Any] | None = None,
    ) -> CachedDataLoader:
        """Return a DataLoader that draws from the active table as it is now.

        The draws depend on seed, table and position alone: they are the same for any number of
        worker processes, and each pass over the loader is the next window of one stream. Later
        edits of the dataset do not change an existing loader.

        Args:
            batch_size: Samples per batch and rank.
            sample_transform_fn: Turns each CachedSample into a training input, in the worker. A
                parameter ``rng`` of it is given a NumPy Generator seeded by seed and position, a
                parameter ``is_padding`` whether the sample only pads the batch.
            batch_transform_fn: Turns a whole CachedBatch into a batch, in place of the former
                and of collation.
            collate_fn: Turns the list of transformed samples into a batch; None takes PyTorch's.
            shuffle: Draw at random, by weight; False reads the rows in table order.
            replacement: With False a shuffled pass holds every row exactly once.
            seed: The seed of the stream from 0 to 2**64 - 1; ``"random"`` draws one per loader.
            samples_per_epoch: Samples per pass over all ranks; None takes ``len(dataset)``.
            worker_partition: How consumers, the workers of all ranks, share the population.
                ``"replicate"``, the default: all draw from all rows, and the number of workers
                changes nothing. ``"split"``: with draws by weight, each consumer draws from a part
                of its own, with the weights within that part; the other orders give each row to
                one consumer per pass anyway.
            num_workers: Loading processes; 0 loads in this one.
            native_num_workers: Native reader threads of each loading process.
            drop_last: Drop the incomplete last batch instead of shortening it.
            pin_memory: Put batches into pinned memory.
            timeout: Seconds to wait for a batch of a worker; 0 waits for ever.
            multiprocessing_context: How workers start: ``"spawn"``, ``"fork"``,
                ``"forkserver"``, ``"inherit"`` for the process's default, or a context.
            worker_init_fn: Called in each worker with its number.
            prefetch_factor: Batches that each worker loads ahead.
            persistent_workers: Keep the workers from one pass to the next.
            work_dir: Where the snapshot for the workers is written; None takes a temporary
                directory that is removed with the loader.
            rank: The number of this process among those that share the batches; None asks
                torch.distributed where it is initialised.
            world_size: How many such processes there are; as for ``rank``.
            decode: ``"arrays"`` collates payloads of ``pack_arrays`` natively.
            verbose: Print what was chosen and what is done.
            dataloader_kwargs: More options of torch.utils.data.DataLoader.

        Raises:
            ImportError: ``dataset_rt_torch`` is not installed.
            ConfigError: An option has a value that is not accepted.

        Example:
            With two loading processes and batches of eight::

                loader = dataset.to_torch_dataloader(
                    batch_size=8, sample_transform_fn=decode, num_workers=2, seed=42
                )
                for features, targets in loader:
                    ...
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        return _dataset_rt_torch().make_dataloader(self, **options)  # type: ignore[no-any-return]

    def to_torch_dataset(self) -> CachedMapDataset:
        """Return a map-style dataset over the active rows, for people with their own sampler.

        Raises:
            ImportError: ``dataset_rt_torch`` is not installed.

        Example:
            With a sampler of PyTorch::

                samples = dataset.to_torch_dataset()
                loader = DataLoader(samples, sampler=RandomSampler(samples), collate_fn=collate)
        """
        return _dataset_rt_torch().make_map_dataset(self)  # type: ignore[no-any-return]

    def to_torch_iterable_dataset(self) -> CachedIterableDataset:
        """Return an iterable dataset that refuses worker processes; a legacy adapter.

        Use ``to_torch_dataloader`` for anything new.

        Raises:
            ImportError: ``dataset_rt_torch`` is not installed.

        Example:
            In the process of the training loop::

                loader = DataLoader(dataset.to_torch_iterable_dataset(), batch_size=None)
        """
        return _dataset_rt_torch().make_iterable_dataset(self)  # type: ignore[no-any-return]


def _dataset_rt_torch() -> ModuleType:
    try:
        return importlib.import_module("dataset_rt_torch")
    except ModuleNotFoundError as error:
        # Only where the package or PyTorch itself is absent: a broken installation shows as it is.
        if error.name not in {"dataset_rt_torch", "torch"}:
            raise
        raise ImportError(
            f"no module {error.name!r}, which the PyTorch loader needs\n"
            'hint: pip install "dataset-rt[torch]"',
            name=error.name,
        ) from error
