"""History of ``checksums-iterate``, ``checksums-batch`` and ``checksums-arrays``."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.checksums import ARRAYS_CASE, BATCH_CASE, ITERATE_CASE


class ChecksumsIterate(CaseBenchmark):
    """One epoch of samples, verified or not."""

    case = ITERATE_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class ChecksumsBatch(CaseBenchmark):
    """One epoch in batches, verified or not."""

    case = BATCH_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class ChecksumsArrays(CaseBenchmark):
    """One epoch of stacked arrays, verified or not."""

    case = ARRAYS_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
