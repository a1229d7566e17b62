"""History of the case ``batch``: shuffled payloads, many at a time in one buffer."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.batch import CASE


class Batch(CaseBenchmark):
    """One epoch in batches."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
