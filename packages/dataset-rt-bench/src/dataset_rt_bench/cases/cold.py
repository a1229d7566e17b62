"""Cold: random reads of files that are on the disk only, against as many reads by hand at once."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import dataset_rt as drt
from dataset_rt_bench import page_cache
from dataset_rt_bench.cases.batch import BATCH_SIZE
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

COLD_READS: Final = 2_048
"""How many records one run reads: 200 MiB at 100 KiB each."""

IN_FLIGHT: Final = 64
"""How many reads the disk has to choose from: threads by hand, and ``prefetch_size`` here."""


class ColdDataset:
    """A dataset that is opened for one run, after its files have left the page cache.

    Pages that are mapped stay in the page cache. So the dataset is closed as soon as a run is
    over, for another one reads the same files.
    """

    def __init__(self, workspace: Workspace, workload: Workload, backend: str) -> None:
        """Find out whether the files can be put out of the page cache at all."""
        self.workspace = workspace
        self.workload = workload
        self.backend = backend
        self.files = page_cache.files_below(workspace.cache(workload))
        page_cache.require_droppable(self.files)
        self.opened: drt.CachedDataset | None = None

    def open(self) -> None:
        """Drop the files and open the dataset, which reads no more than a manifest."""
        self.close()
        page_cache.drop(self.files)
        self.opened = self.workspace.dataset(
            self.workload, backend=self.backend, prefetch_size=IN_FLIGHT
        )
        self.opened.set_epoch_len(min(COLD_READS, self.workload.num_records))

    @property
    def dataset(self) -> drt.CachedDataset:
        """The dataset, which must be open."""
        if self.opened is None:
            raise RuntimeError("the dataset is not open")
        return self.opened

    def close(self) -> None:
        """Close the dataset, if it is open."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None


def samples(workspace: Workspace, workload: Workload, backend: str) -> Contender:
    """``for sample in dataset``."""
    cold = ColdDataset(workspace, workload, backend)

    def run() -> int:
        count = 0
        for _ in cold.dataset:
            count += 1
        return count

    def delivery() -> Delivery:
        cold.open()
        return Delivery.of(sample.data for sample in cold.dataset)

    return Contender(run, delivery, prepare=cold.open, finish=cold.close, teardown=cold.close)


def batches(workspace: Workspace, workload: Workload, backend: str) -> Contender:
    """``dataset.iter_batches(256)``."""
    cold = ColdDataset(workspace, workload, backend)

    def run() -> int:
        count = 0
        for batch in cold.dataset.iter_batches(BATCH_SIZE):
            count += len(batch.offsets) - 1
        return count

    def delivery() -> Delivery:
        cold.open()
        return Delivery.of(
            data for batch in cold.dataset.iter_batches(BATCH_SIZE) for data in batch.data
        )

    return Contender(run, delivery, prepare=cold.open, finish=cold.close, teardown=cold.close)


def parallel_pread(workspace: Workspace, workload: Workload) -> Contender:
    """``pread`` of the same records of a bare file by 64 threads, each into its one buffer."""
    path = workspace.memmap(workload)
    page_cache.require_droppable([path])
    order = workspace.drawn_order(workload)[:COLD_READS]
    record_bytes = workload.record_bytes
    descriptor = os.open(path, os.O_RDONLY)
    # Read-ahead of what comes after a record would be wasted on random reads.
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    pool = ThreadPoolExecutor(IN_FLIGHT)

    def read(indices: list[int]) -> int:
        buffers = [bytearray(record_bytes)]
        for index in indices:
            read_bytes = os.preadv(descriptor, buffers, index * record_bytes)
            if read_bytes != record_bytes:
                raise OSError(f"{path}: record {index} has {read_bytes} of {record_bytes} bytes")
        return len(indices)

    def run() -> int:
        return sum(pool.map(read, (order[start::IN_FLIGHT] for start in range(IN_FLIGHT))))

    def payloads() -> Iterator[bytes]:
        return (os.pread(descriptor, record_bytes, index * record_bytes) for index in order)

    def teardown() -> None:
        pool.shutdown()
        os.close(descriptor)

    return Contender(
        run,
        lambda: Delivery.of(payloads()),
        prepare=lambda: page_cache.drop([path]),
        teardown=teardown,
    )


def _case(name: str, what: str, set_up: Callable[..., Contender]) -> Case:
    return Case(
        name=f"cold-{name}",
        question=f"{what} at random from files that are not in the page cache",
        item="samples",
        scale="record_size",
        subject="dataset_rt, map",
        contenders={
            "dataset_rt, map": partial(set_up, backend="map"),
            "dataset_rt, pread": partial(set_up, backend="pread"),
            "parallel pread": parallel_pread,
        },
    )


ITERATE_CASE = _case("iterate", "samples", samples)
BATCH_CASE = _case("batch", f"payloads, {BATCH_SIZE} at a time,", batches)
