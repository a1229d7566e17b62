"""History of the cases about loaders: PyTorch's DataLoader."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.loader import (
    ARRAYS_CASE,
    BATCHES_CASE,
    CASE,
    PRIVATE_MEMORY,
    START_CASE,
    WORKERS_CASE,
)


class Loader(CaseBenchmark):
    """One epoch in the training process."""

    case = CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class LoaderWorkers(CaseBenchmark):
    """One epoch with two persistent workers, which the set-up has started."""

    case = WORKERS_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class LoaderBatches(CaseBenchmark):
    """One epoch with a transform of whole batches."""

    case = BATCHES_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class LoaderArrays(CaseBenchmark):
    """One epoch of packed arrays that are stacked natively."""

    case = ARRAYS_CASE
    params = parameters(case)

    def time_epoch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()


class LoaderStart(CaseBenchmark):
    """Two workers that are started for their first batch, and what each has for itself."""

    case = START_CASE
    params = parameters(case)

    def time_first_batch(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()

    def track_private_memory(self, *_: str) -> float:
        """Return the mebibytes of the larger worker; set-up has started others and let them go."""
        self.contender.run()
        return self.contender.facts()[PRIVATE_MEMORY]

    track_private_memory.unit = "MiB"  # type: ignore[attr-defined]
