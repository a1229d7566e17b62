"""Loader: a PyTorch DataLoader that makes a small tensor of each payload and collates batches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

import dataset_rt as drt
from dataset_rt_bench.cases.contender import Case, Contender, Delivery, SetUp, do_nothing
from dataset_rt_bench.peers.map_style import LmdbDataset, MemmapDataset
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import ORDER_SEED, Workspace

BATCH_SIZE: Final = 256
BYTES_TAKEN: Final = 64
"""How much of each payload the transform looks at: little, so that loading is what is timed."""


@dataclass(frozen=True)
class Workers:
    """How many loading workers a loader has, and how they are started."""

    count: int
    start_method: Literal["spawn", "forkserver"] = "spawn"


def first_bytes(payload: bytes) -> torch.Tensor:
    """Return the first 64 bytes of a payload as a tensor."""
    return torch.frombuffer(bytearray(payload[:BYTES_TAKEN]), dtype=torch.uint8)


def first_bytes_of_sample(sample: drt.CachedSample) -> torch.Tensor:
    """Return the first 64 bytes of a sample's payload as a tensor."""
    return first_bytes(sample.data)


def dataset_rt(workspace: Workspace, workload: Workload, workers: Workers) -> Contender:
    """``dataset.to_torch_dataloader``, shuffled with replacement, checksums verified."""
    with workspace.dataset(workload) as dataset:
        loader: Any = dataset.to_torch_dataloader(
            batch_size=BATCH_SIZE,
            sample_transform_fn=first_bytes_of_sample,
            seed=ORDER_SEED,
            num_workers=workers.count,
            multiprocessing_context=workers.start_method,
        )

    def delivery() -> Delivery:
        loader.set_epoch(0)
        return _delivery(loader)

    return Contender(lambda: _count(loader), delivery)


def numpy_memmap(workspace: Workspace, workload: Workload, workers: Workers) -> Contender:
    """A map-style dataset over a NumPy memmap, with torch's RandomSampler, no checksums."""
    dataset = MemmapDataset(workspace.memmap(workload), workload, first_bytes)
    return _map_style(workspace, workload, workers, dataset, do_nothing)


def lmdb(workspace: Workspace, workload: Workload, workers: Workers) -> Contender:
    """A map-style dataset over LMDB, with torch's RandomSampler, no checksums."""
    dataset = LmdbDataset(workspace.lmdb(workload), workload, first_bytes)
    return _map_style(workspace, workload, workers, dataset, dataset.close)


def _map_style(
    workspace: Workspace,
    workload: Workload,
    workers: Workers,
    dataset: Dataset[Any],
    teardown: Callable[[], None],
) -> Contender:
    sampler = RandomSampler(
        range(workload.num_records),
        replacement=True,
        num_samples=workload.num_records,
        generator=torch.Generator().manual_seed(ORDER_SEED),
    )
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=BATCH_SIZE,
        sampler=sampler,
        num_workers=workers.count,
        persistent_workers=workers.count > 0,
        multiprocessing_context=workers.start_method if workers.count > 0 else None,
    )

    def delivery() -> Delivery:
        # Another sampler, so that the records are those that the subject draws.
        order = workspace.drawn_order(workload)
        return _delivery(DataLoader(dataset, batch_size=BATCH_SIZE, sampler=order))

    return Contender(lambda: _count(loader), delivery, teardown=teardown)


def _count(batches: Iterable[torch.Tensor]) -> int:
    return sum(len(batch) for batch in batches)


def _delivery(batches: Iterable[torch.Tensor]) -> Delivery:
    return Delivery.of(row.numpy() for batch in batches for row in batch)


def case(name: str, workers: Workers) -> Case:
    """Return the case of loaders with these workers."""
    subject: SetUp = partial(dataset_rt, workers=workers)
    return Case(
        name=name,
        question=f"DataLoader with batches of {BATCH_SIZE} and {workers.count} workers",
        item="samples",
        scale="record_size",
        subject="dataset_rt",
        contenders={
            "dataset_rt": subject,
            "numpy memmap": partial(numpy_memmap, workers=workers),
            "lmdb": partial(lmdb, workers=workers),
        },
    )


CASE = case("loader", Workers(0))
WORKERS_CASE = case("loader-workers", Workers(2))
