"""History of the case ``views``: payloads as views into the map."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.views import CASE


class Views(CaseBenchmark):
    """One epoch of views."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
