"""Loader: a PyTorch DataLoader that makes a small tensor of each payload and collates batches."""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

import dataset_rt as drt
from dataset_rt_bench.cases.batch import BATCH_SIZE, memcpy
from dataset_rt_bench.cases.contender import Case, Contender, Delivery, SetUp, do_nothing
from dataset_rt_bench.peers.map_style import LmdbDataset, MemmapDataset
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import ORDER_SEED, Workspace

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


def first_bytes_of_batch(batch: drt.CachedBatch) -> torch.Tensor:
    """Return the first 64 bytes of each payload of a batch, all of one size, as one tensor."""
    payloads = batch.buffer.reshape(len(batch), -1)
    return torch.from_numpy(payloads[:, :BYTES_TAKEN].copy())


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


def batch_transform(workspace: Workspace, workload: Workload) -> Contender:
    """``batch_transform_fn``, which gets all payloads of a batch in one buffer."""
    with workspace.dataset(workload) as dataset:
        loader: Any = dataset.to_torch_dataloader(
            batch_size=BATCH_SIZE,
            batch_transform_fn=first_bytes_of_batch,
            seed=ORDER_SEED,
            num_workers=0,
        )

    def delivery() -> Delivery:
        loader.set_epoch(0)
        return _delivery(loader)

    return Contender(lambda: _count(loader), delivery)


def decode_arrays(workspace: Workspace, workload: Workload) -> Contender:
    """``decode="arrays"``: payloads of ``pack_arrays`` become a dictionary of tensors."""
    with workspace.array_dataset(workload, "pack_arrays") as dataset:
        loader: Any = dataset.to_torch_dataloader(
            batch_size=BATCH_SIZE,
            decode="arrays",
            seed=ORDER_SEED,
            num_workers=0,
            # As many as the copy has.
            native_num_workers=workspace.runtime.num_workers,
        )

    def images() -> Iterator[torch.Tensor]:
        return (batch["image"] for batch in loader)

    def delivery() -> Delivery:
        loader.set_epoch(0)
        return Delivery.of_first(image.numpy() for batch in images() for image in batch)

    return Contender(lambda: _count(images()), delivery)


PRIVATE_MEMORY: Final = "private MiB per worker"
"""What a worker has of memory that it shares with no other process, after its first batches."""


SETTLING_BATCHES: Final = 8
"""After so many batches each worker has made some; they take turns."""


class FirstBatch:
    """Takes the first batch from workers that are started for it."""

    def __init__(self, loader: Iterable[torch.Tensor]) -> None:
        """Remember whose workers to start."""
        self.loader = loader
        self.batches: Iterator[torch.Tensor] | None = None
        self.others = multiprocessing.active_children()

    def prepare(self) -> None:
        """Remember which children are no workers of this loader."""
        self.finish()
        self.others = multiprocessing.active_children()

    def run(self) -> int:
        """Start workers, and return the number of samples of the first batch."""
        self.batches = iter(self.loader)
        return len(next(self.batches))

    def finish(self) -> None:
        """Let the workers go, which is not what is timed."""
        self.batches = None

    def facts(self) -> Mapping[str, float]:
        """Return the private memory of the workers that are there."""
        if self.batches is not None:
            # Starting takes more than going on does, and workers do not start together.
            for _ in range(SETTLING_BATCHES):
                next(self.batches)
        workers = set(multiprocessing.active_children()).difference(self.others)
        sizes = [private_mebibytes(worker.pid) for worker in workers if worker.pid is not None]
        return {PRIVATE_MEMORY: max(sizes)} if sizes else {}

    def contender(self) -> Contender:
        """Return what a case needs."""
        return Contender(
            self.run,
            # One loader reads and the other does not; what is the same is the size of the batch.
            lambda: Delivery(items=BATCH_SIZE, payload_bytes=0, checksum=0),
            prepare=self.prepare,
            finish=self.finish,
            teardown=self.finish,
            facts=self.facts,
        )


def private_mebibytes(process_id: int) -> float:
    """Return the memory of a process that it shares with no other; only Linux tells."""
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="ascii").splitlines()
    fields = (line.split() for line in lines)
    private = ("Private_Clean:", "Private_Dirty:")
    return sum(int(size) for name, size, *_ in fields if name in private) / 1024


def first_batch(workspace: Workspace, workload: Workload, workers: Workers) -> Contender:
    """Rows of which each has another weight, so that workers need the whole table."""
    with workspace.dataset(workload) as dataset:
        dataset.set_weights(np.arange(1, workload.num_records + 1, dtype=np.float64))
        loader: Any = dataset.to_torch_dataloader(
            batch_size=BATCH_SIZE,
            sample_transform_fn=first_bytes_of_sample,
            seed=ORDER_SEED,
            num_workers=workers.count,
            persistent_workers=False,
            multiprocessing_context=workers.start_method,
        )
    # Workers that are started anew begin with the first window, which is what is wanted here.
    loader.set_epoch(0)
    return FirstBatch(loader).contender()


def bare_first_batch(workspace: Workspace, workload: Workload, workers: Workers) -> Contender:
    """PyTorch's DataLoader over a few tensors: nothing to open, nothing to read."""
    del workspace, workload
    tensors = TensorDataset(
        torch.zeros(2 * SETTLING_BATCHES * BATCH_SIZE, BYTES_TAKEN, dtype=torch.uint8)
    )
    loader: DataLoader[Any] = DataLoader(
        tensors,
        batch_size=BATCH_SIZE,
        num_workers=workers.count,
        multiprocessing_context=workers.start_method,
        collate_fn=stacked_tensors,
    )
    return FirstBatch(loader).contender()


def stacked_tensors(samples: list[tuple[torch.Tensor]]) -> torch.Tensor:
    """Stack the samples of a ``TensorDataset`` of one tensor."""
    return torch.stack([tensor for (tensor,) in samples])


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


def start_case(workers: Workers) -> Case:
    """Return the case of the first batch of workers that are started for it."""
    return Case(
        name="loader-start",
        question=f"the first batch of {BATCH_SIZE} from {workers.count} workers that have to start",
        item="samples",
        scale="row_count",
        subject="dataset_rt",
        contenders={
            "dataset_rt": partial(first_batch, workers=workers),
            "bare DataLoader": partial(bare_first_batch, workers=workers),
        },
    )


CASE = case("loader", Workers(0))
WORKERS_CASE = case("loader-workers", Workers(2))
BATCHES_CASE = Case(
    name="loader-batches",
    question=f"DataLoader with batches of {BATCH_SIZE} that are transformed as a whole",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": batch_transform,
        "sample by sample": partial(dataset_rt, workers=Workers(0)),
    },
)
ARRAYS_CASE = Case(
    name="loader-arrays",
    question=f"DataLoader that stacks shuffled images of bytes, {BATCH_SIZE} in a tensor",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={"dataset_rt": decode_arrays, "memcpy": memcpy},
)
START_CASE = start_case(Workers(2))
CASES: Final = (CASE, WORKERS_CASE, BATCHES_CASE, ARRAYS_CASE, START_CASE)
