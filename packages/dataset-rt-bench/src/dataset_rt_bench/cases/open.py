"""Open: a cache of very many rows against one of few; and the first sample after opening."""

from collections.abc import Callable
from typing import Final

import dataset_rt as drt
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.workload import FEW_ROWS, Workload, row_workload
from dataset_rt_bench.workspace import Workspace

OPENS_PER_RUN: Final = 20


def _opening(
    workspace: Workspace, workload: Workload, use: Callable[[drt.CachedDataset], None]
) -> Contender:
    path = workspace.cache(workload)

    def run() -> int:
        for _ in range(OPENS_PER_RUN):
            with workspace.runtime.cached_dataset([path]) as dataset:
                use(dataset)
        return OPENS_PER_RUN

    def delivery() -> Delivery:
        # Record 0 is the same in every cache; the number of rows is what differs on purpose.
        with workspace.runtime.cached_dataset([path]) as dataset:
            return Delivery.of([dataset.rows[0].data])

    return Contender(run, delivery)


def _only_open(dataset: drt.CachedDataset) -> None:
    len(dataset)


def _read_first(dataset: drt.CachedDataset) -> None:
    dataset.rows[0]


def open_many(workspace: Workspace, workload: Workload) -> Contender:
    """Open and close the cache of many rows."""
    return _opening(workspace, workload, _only_open)


def open_few(workspace: Workspace, workload: Workload) -> Contender:
    """Open and close a cache of 1,000 rows."""
    return _opening(workspace, row_workload(min(FEW_ROWS, workload.num_records)), _only_open)


def first_sample_of_many(workspace: Workspace, workload: Workload) -> Contender:
    """Open the cache of many rows, read one sample with metadata, close."""
    return _opening(workspace, workload, _read_first)


def first_sample_of_few(workspace: Workspace, workload: Workload) -> Contender:
    """Open a cache of 1,000 rows, read one sample with metadata, close."""
    return _opening(workspace, row_workload(min(FEW_ROWS, workload.num_records)), _read_first)


CASE = Case(
    name="open",
    question="opening a cache of many rows, against one of 1,000 rows",
    item="opens",
    scale="row_count",
    subject="many rows",
    contenders={"many rows": open_many, "1,000 rows": open_few},
)

FIRST_SAMPLE_CASE = Case(
    name="first-sample",
    question="opening a cache of many rows and reading one sample, against one of 1,000 rows",
    item="opens",
    scale="row_count",
    subject="many rows",
    contenders={"many rows": first_sample_of_many, "1,000 rows": first_sample_of_few},
)
