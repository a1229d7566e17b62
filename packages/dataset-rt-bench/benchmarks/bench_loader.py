"""History of the cases ``loader`` and ``loader-workers``: PyTorch's DataLoader."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.loader import CASE, WORKERS_CASE


class Loader(CaseBenchmark):
    """One epoch in the training process."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class LoaderWorkers(CaseBenchmark):
    """One epoch with two persistent workers, which the set-up has started."""

    case = WORKERS_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
