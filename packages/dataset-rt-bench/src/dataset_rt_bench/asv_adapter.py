"""Runs a case's contenders under asv, on data small enough for a benchmark of a few seconds."""

from pathlib import Path
from typing import ClassVar, Final

from dataset_rt_bench.cases.contender import Case, Contender
from dataset_rt_bench.peers.catalogue import LIBRARIES
from dataset_rt_bench.unavailable import UnavailableError
from dataset_rt_bench.workload import (
    FEW_ROWS,
    QUICK_MANY_ROWS,
    QUICK_RECORD_WORKLOADS,
    row_workload,
)
from dataset_rt_bench.workspace import Workspace

RECORD_WORKLOADS: Final = {workload.title: workload for workload in QUICK_RECORD_WORKLOADS}
ROW_WORKLOADS: Final = {row_workload(QUICK_MANY_ROWS).title: row_workload(QUICK_MANY_ROWS)}


def parameters(case: Case) -> tuple[list[str], list[str]]:
    """Return asv's ``params`` for a case: its contenders, and the workloads of its scale.

    The libraries of others are left out: their speed is not part of this repository's history.
    """
    workloads = RECORD_WORKLOADS if case.scale == "record_size" else ROW_WORKLOADS
    libraries = {peer.name for peer in LIBRARIES}
    return [name for name in case.contenders if name not in libraries], list(workloads)


class CaseBenchmark:
    """Base of all asv benchmarks; a subclass names its case and its parameters.

    asv calls ``setup_cache`` once for all of them, because they share this one function, and
    ``setup`` before each sample, in a process of its own for each combination of parameters.
    """

    case: ClassVar[Case]
    param_names: ClassVar = ("contender", "workload")

    # One run is long enough for the clock, and ``prepare`` must come before each one.
    number = 1
    rounds = 1
    repeat = (3, 10, 4.0)
    warmup_time = 0.0
    timeout = 300.0

    contender: Contender

    def setup_cache(self) -> str:
        """Prepare the data of all cases in the directory that asv keeps for them."""
        workspace = Workspace(Path("workspace").resolve())
        for workload in RECORD_WORKLOADS.values():
            workspace.cache(workload)
            workspace.memmap(workload)
            workspace.lmdb(workload)
        for workload in (*ROW_WORKLOADS.values(), row_workload(FEW_ROWS)):
            workspace.cache(workload)
        return str(workspace.directory)

    def setup(self, directory: str, contender: str, workload: str) -> None:
        """Make one contender ready, with one run that warms the caches."""
        chosen = {**RECORD_WORKLOADS, **ROW_WORKLOADS}[workload]
        try:
            self.contender = self.case.contenders[contender](Workspace(Path(directory)), chosen)
        except UnavailableError as error:
            # What asv takes as a benchmark to leave out.
            raise NotImplementedError(str(error)) from error
        self.contender.prepare()
        self.contender.run()
        self.contender.prepare()

    def teardown(self, *_: str) -> None:
        """Release what the set-up made; loading workers end with the process."""
        self.contender.teardown()
