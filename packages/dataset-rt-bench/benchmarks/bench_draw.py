"""History of the cases ``draw`` and ``draw-permutation``: row numbers, without reading."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.draw import CASE, PERMUTATION_CASE


class Draw(CaseBenchmark):
    """Drawing a million rows by weight."""

    case = CASE
    params = parameters(case)

    def time_draws(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class DrawPermutation(CaseBenchmark):
    """Drawing a million rows of a permutation."""

    case = PERMUTATION_CASE
    params = parameters(case)

    def time_draws(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
