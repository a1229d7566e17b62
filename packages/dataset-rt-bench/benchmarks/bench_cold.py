"""History of the cases ``cold-iterate`` and ``cold-batch``: files that are not in memory."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.cold import BATCH_CASE, ITERATE_CASE


class ColdIterate(CaseBenchmark):
    """Samples from the disk."""

    case = ITERATE_CASE
    params = parameters(case)

    def time_reads(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class ColdBatch(CaseBenchmark):
    """Batches from the disk."""

    case = BATCH_CASE
    params = parameters(case)

    def time_reads(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
