"""Get item: single samples at random, each asked for in a call of its own."""

from collections.abc import Callable

import dataset_rt as drt
from dataset_rt_bench.cases import peer_reads
from dataset_rt_bench.cases.contender import MAX_COMPARED, Case, Contender, Delivery
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace


def get_item(workspace: Workspace, workload: Workload) -> Contender:
    """``dataset.get_item(cache_id, sample_id)``: payload and metadata, checksums verified."""
    dataset = workspace.dataset(workload)
    (cache,) = dataset.caches
    return _reading(workspace, workload, dataset, lambda index: dataset.get_item(cache.id, index))


def rows(workspace: Workspace, workload: Workload) -> Contender:
    """``dataset.rows[i]``, the same by row of the active table."""
    dataset = workspace.dataset(workload)
    active_rows = dataset.rows
    return _reading(workspace, workload, dataset, lambda index: active_rows[index])


def _reading(
    workspace: Workspace,
    workload: Workload,
    dataset: drt.CachedDataset,
    read_sample: Callable[[int], drt.CachedSample],
) -> Contender:
    order = workspace.drawn_order(workload)[:MAX_COMPARED]

    def run() -> int:
        count = 0
        for index in order:
            read_sample(index)
            count += 1
        return count

    def delivery() -> Delivery:
        return Delivery.of(read_sample(index).data for index in order)

    return Contender(run, delivery, teardown=dataset.close)


CASE = Case(
    name="get-item",
    question="single samples with metadata at random, each in a call of its own",
    item="samples",
    scale="record_size",
    subject="dataset_rt",
    contenders={"dataset_rt": get_item, "dataset_rt, rows": rows, **peer_reads.by_number()},
)
