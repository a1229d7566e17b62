"""History of the case ``sequential``: whole samples in stored order."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.sequential import CASE


class Sequential(CaseBenchmark):
    """Iterating one epoch without shuffling."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
