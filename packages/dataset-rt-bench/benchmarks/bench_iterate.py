"""History of the case ``iterate``: whole shuffled samples, one by one."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.iterate import CASE


class Iterate(CaseBenchmark):
    """Iterating one epoch."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
