"""History of the case ``arrays``: images stacked into one array."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.arrays import CASE


class Arrays(CaseBenchmark):
    """One epoch of stacked batches."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
