"""History of the case ``write``: records from one generator to disk."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.write import CASE


class Write(CaseBenchmark):
    """Writing all records."""

    case = CASE
    params = parameters(case)

    def time_all_records(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
