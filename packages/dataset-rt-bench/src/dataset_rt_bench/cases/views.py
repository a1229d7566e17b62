"""Views: shuffled payloads as memoryviews into the mapped files, which copies nothing."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dataset_rt_bench.cases.batch import BATCH_SIZE
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.peers import memmap as memmap_peer
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def dataset_rt(workspace: Workspace, workload: Workload, **reader_options: object) -> Contender:
    """``batch.views`` of ``iter_batches``: records found, verified where they lie, and wrapped."""
    dataset = workspace.dataset(workload, **reader_options)
    start = dataset.state_dict()

    def run() -> int:
        count = 0
        for batch in dataset.iter_batches(BATCH_SIZE):
            count += len(batch.views)
        return count

    def rewind() -> None:
        dataset.load_state_dict(start)

    def delivery() -> Delivery:
        rewind()
        return Delivery.of_first(
            view for batch in dataset.iter_batches(BATCH_SIZE) for view in batch.views
        )

    return Contender(run, delivery, prepare=rewind, teardown=dataset.close)


def _in_batches(
    workspace: Workspace, workload: Workload, views: Callable[[Sequence[int]], list[Any]]
) -> Contender:
    """What ``views`` makes of the row numbers of each batch."""
    order = workspace.drawn_order(workload)
    batches = [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]

    def run() -> int:
        count = 0
        for rows in batches:
            count += len(views(rows))
        return count

    return Contender(
        run, lambda: Delivery.of_first(view for rows in batches for view in views(rows))
    )


def numpy_rows(workspace: Workspace, workload: Workload) -> Contender:
    """``[array[i] for i in rows]`` on the map viewed as a plain array."""
    records = memmap_peer.plain_array(memmap_peer.map_records(workspace.memmap(workload), workload))
    return _in_batches(workspace, workload, lambda rows: [records[row] for row in rows])


def memoryview_slices(workspace: Workspace, workload: Workload) -> Contender:
    """Slices of one memoryview of the map, where all records have one size."""
    mapped = memmap_peer.map_records(workspace.memmap(workload), workload)
    payloads = memmap_peer.plain_array(mapped).reshape(-1).data
    size = workload.record_bytes
    return _in_batches(
        workspace,
        workload,
        lambda rows: [payloads[row * size : (row + 1) * size] for row in rows],
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
