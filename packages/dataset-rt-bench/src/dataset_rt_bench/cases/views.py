"""Views: shuffled payloads as memoryviews into the mapped files, which copies nothing."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dataset_rt_bench.cases.batch import BATCH_SIZE
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def dataset_rt(workspace: Workspace, workload: Workload, **reader_options: object) -> Contender:
    """``dataset.rows[rows].views``: each record found, verified where it lies, and wrapped."""
    dataset = workspace.dataset(workload, **reader_options)
    order = np.array(workspace.drawn_order(workload))
    batches = [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]
    active_rows = dataset.rows

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(active_rows[rows].views)
        return count

    def delivery() -> Delivery:
        return Delivery.of_first(view for rows in batches for view in active_rows[rows].views)

    return Contender(run, delivery, teardown=dataset.close)


def _batches_of_numbers(workspace: Workspace, workload: Workload) -> list[list[int]]:
    order = workspace.drawn_order(workload)
    return [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]


def numpy_rows(workspace: Workspace, workload: Workload) -> Contender:
    """``[array[i] for i in rows]`` on the map viewed as a plain array."""
    records = memmap_peer.plain_array(memmap_peer.map_records(workspace.memmap(workload), workload))
    batches = _batches_of_numbers(workspace, workload)

    def views(rows: Sequence[int]) -> list[Any]:
        return [records[row] for row in rows]

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(views(rows))
        return count

    return Contender(
        run, lambda: Delivery.of_first(view for rows in batches for view in views(rows))
    )


def memoryview_slices(workspace: Workspace, workload: Workload) -> Contender:
    """Slices of one memoryview of the map, where all records have one size."""
    mapped = memmap_peer.map_records(workspace.memmap(workload), workload)
    payloads = memmap_peer.plain_array(mapped).reshape(-1).data
    record_bytes = workload.record_bytes
    batches = _batches_of_numbers(workspace, workload)

    def views(rows: Sequence[int]) -> list[memoryview]:
        return [payloads[row * record_bytes : (row + 1) * record_bytes] for row in rows]

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(views(rows))
        return count

    return Contender(
        run, lambda: Delivery.of_first(view for rows in batches for view in views(rows))
    )


CASE = Case(
    name="views",
    question=f"shuffled payloads as views into the map, {BATCH_SIZE} at a time, nothing copied",
    item="views",
    scale="record_size",
    subject="dataset_rt",
    contenders={
        "dataset_rt": dataset_rt,
        "dataset_rt, unverified": partial(dataset_rt, verify_reads=False),
        "numpy rows": numpy_rows,
        "memoryview slices": memoryview_slices,
    },
)
