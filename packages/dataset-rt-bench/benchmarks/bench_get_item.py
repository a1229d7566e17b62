"""History of the case ``get-item``: single samples at random."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.get_item import CASE


class GetItem(CaseBenchmark):
    """Reading samples each in a call of its own."""

    case = CASE
    params = parameters(case)

    def time_reads(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
