"""Weights: what it takes to draw by new weights, in time and in memory."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.cases.draw import weights
from dataset_rt_bench.memory import peak_growth_bytes
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

PEAK: Final = "peak bytes per row"
"""The name of the fact that is stated beside the time."""


def set_weights(workspace: Workspace, workload: Workload) -> Contender:
    """``dataset.set_weights``: checks each weight and builds the table for draws in one step."""
    dataset = workspace.unweighted_dataset(workload)
    values = weights(workload)

    def run() -> int:
        dataset.set_weights(values)
        return workload.num_records

    def first_set_weights() -> None:
        with workspace.unweighted_dataset(workload) as fresh:
            fresh.set_weights(values)

    return Contender(
        run,
        lambda: _delivery(workload),
        teardown=dataset.close,
        facts=lambda: _facts(first_set_weights, workload),
    )


def cumulative_sum(workspace: Workspace, workload: Workload) -> Contender:
    """``np.cumsum`` and a division by the total, for draws by ``np.searchsorted``."""
    del workspace
    values = weights(workload)

    def run() -> int:
        cumulative = np.cumsum(values)
        cumulative /= cumulative[-1]
        return len(cumulative)

    return Contender(run, lambda: _delivery(workload), facts=lambda: _facts(run, workload))


def _delivery(workload: Workload) -> Delivery:
    # The tables differ on purpose; what is the same is how many rows they hold.
    return Delivery(items=workload.num_records, payload_bytes=0, checksum=0)


def _facts(work: Callable[[], object], workload: Workload) -> Mapping[str, float]:
    growth = peak_growth_bytes(work)
    return {} if growth is None else {PEAK: growth / workload.num_records}


CASE = Case(
    name="weights",
    question="making new weights ready for drawing",
    item="rows",
    scale="row_count",
    subject="dataset_rt",
    contenders={"dataset_rt": set_weights, "numpy cumsum": cumulative_sum},
)
