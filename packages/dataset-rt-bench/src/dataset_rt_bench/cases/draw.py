"""Draw: which rows come next, by weight and as a permutation, without reading them."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

import dataset_rt as drt
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import ORDER_SEED, Workspace

DRAWS_PER_RUN: Final = 1 << 20
DRAWS_PER_CALL: Final = 1 << 13


def weights(workload: Workload) -> npt.NDArray[np.float64]:
    """Return skewed weights: few rows are drawn often, most seldom."""
    return np.random.default_rng(ORDER_SEED).lognormal(sigma=2.0, size=workload.num_records)


def _draws(dataset: drt.CachedDataset) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, DRAWS_PER_RUN, DRAWS_PER_CALL):
        yield dataset.draws(start, start + DRAWS_PER_CALL)


def _delivery(batches: Iterator[npt.NDArray[np.int64]], workload: Workload) -> Delivery:
    # Draws of different generators differ; that each is a row of the table can be compared.
    rows = np.concatenate(list(batches))
    in_table = (rows >= 0) & (rows < workload.num_records)
    return Delivery(items=int(in_table.sum()), payload_bytes=0, checksum=0)


def _drawing(dataset: drt.CachedDataset, workload: Workload) -> Contender:
    def run() -> int:
        return sum(len(batch) for batch in _draws(dataset))

    return Contender(run, lambda: _delivery(_draws(dataset), workload), teardown=dataset.close)


def weighted(workspace: Workspace, workload: Workload) -> Contender:
    """``dataset.draws`` by weight, with replacement."""
    dataset = workspace.unweighted_dataset(workload)
    dataset.set_weights(weights(workload))
    return _drawing(dataset, workload)


def permutation(workspace: Workspace, workload: Workload) -> Contender:
    """``dataset.draws`` without replacement, all weights equal."""
    return _drawing(workspace.dataset(workload, replacement=False), workload)


def searchsorted(workspace: Workspace, workload: Workload) -> Contender:
    """Uniform numbers looked up in a precomputed cumulative sum, as NumPy users draw by weight."""
    del workspace
    cumulative = np.cumsum(weights(workload))
    total = cumulative[-1]
    generator = np.random.default_rng(ORDER_SEED)

    def batches() -> Iterator[npt.NDArray[np.int64]]:
        for _ in range(0, DRAWS_PER_RUN, DRAWS_PER_CALL):
            yield np.searchsorted(cumulative, generator.random(DRAWS_PER_CALL) * total, "right")

    def run() -> int:
        return sum(len(batch) for batch in batches())

    return Contender(run, lambda: _delivery(batches(), workload))


CASE = Case(
    name="draw",
    question=f"row numbers, {DRAWS_PER_CALL:,} per call",
    item="draws",
    scale="row_count",
    subject="dataset_rt, by weight",
    contenders={"dataset_rt, by weight": weighted, "numpy searchsorted": searchsorted},
)

PERMUTATION_CASE = Case(
    name="draw-permutation",
    question=f"row numbers of a permutation, {DRAWS_PER_CALL:,} per call",
    item="draws",
    scale="row_count",
    subject="dataset_rt, permutation",
    contenders={"dataset_rt, permutation": permutation, "numpy searchsorted": searchsorted},
)
