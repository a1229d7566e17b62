"""History of the cases ``open`` and ``first-sample``: many rows against few."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.open import CASE, FIRST_SAMPLE_CASE


class Open(CaseBenchmark):
    """Opening and closing a cache."""

    case = CASE
    params = parameters(case)

    def time_opens(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class FirstSample(CaseBenchmark):
    """Opening a cache and reading one sample."""

    case = FIRST_SAMPLE_CASE
    params = parameters(case)

    def time_opens(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
