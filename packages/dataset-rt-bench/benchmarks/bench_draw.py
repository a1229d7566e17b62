"""History of the case ``draw``: row numbers, drawn by weight and as a permutation."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.draw import CASE


class Draw(CaseBenchmark):
    """Drawing a million rows."""

    case = CASE
    params = parameters(case)

    def time_draws(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
