"""Batch: shuffled records, gathered 256 at a time into one buffer."""

from typing import Final

import numpy as np

from dataset_rt_bench.cases import peer_reads
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.copying import ParallelCopy
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

BATCH_SIZE: Final = 256


def dataset_rt(workspace: Workspace, workload: Workload, **reader_options: object) -> Contender:
    """``dataset.iter_batches(256)``: payloads in one buffer, checksums verified."""
    dataset = workspace.dataset(workload, **reader_options)
    start = dataset.state_dict()

    def run() -> int:
        count = 0
        for batch in dataset.iter_batches(BATCH_SIZE):
            count += len(batch.offsets) - 1
        return count

    def rewind() -> None:
        dataset.load_state_dict(start)

    def delivery() -> Delivery:
        rewind()
        return Delivery.of_first(
            batch.buffer[start:stop].data
            for batch in dataset.iter_batches(BATCH_SIZE)
            for start, stop in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)
        )

    return Contender(run, delivery, prepare=rewind, teardown=dataset.close)


def numpy_fancy_index(workspace: Workspace, workload: Workload) -> Contender:
    """``array[rows]`` on the map viewed as a plain array, no metadata, no checksums."""
    records = memmap_peer.plain_array(memmap_peer.map_records(workspace.memmap(workload), workload))
    order = np.array(workspace.drawn_order(workload))
    batches = [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(records[rows])
        return count

    def delivery() -> Delivery:
        return Delivery.of_first(row for rows in batches for row in records[rows])

    return Contender(run, delivery)


def memcpy(workspace: Workspace, workload: Workload) -> Contender:
    """Copy as many bytes, a batch at a time, in as many threads as DatasetRT has: the limit."""
    mapped = memmap_peer.map_records(workspace.memmap(workload), workload)
    copy = ParallelCopy(
        memmap_peer.plain_array(mapped).reshape(-1),
        piece_bytes=min(BATCH_SIZE, workload.num_records) * workload.record_bytes,
        num_threads=workspace.runtime.num_workers,
    )

    def run() -> int:
        copy.run()
        return workload.num_records

    return Contender(run, delivery=None, teardown=copy.close)


CASE = Case(
    name="batch",
    question=f"shuffled payloads, {BATCH_SIZE} at a time in one buffer",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": dataset_rt,
        "memcpy": memcpy,
        "numpy fancy index": numpy_fancy_index,
        **peer_reads.in_batches(BATCH_SIZE),
    },
)
