"""History of the case ``weights``: making new weights ready for drawing."""

from dataset_rt_bench.asv_adapter import CaseBenchmark, parameters
from dataset_rt_bench.cases.weights import CASE


class Weights(CaseBenchmark):
    """Setting the weights of all rows."""

    case = CASE
    params = parameters(case)

    def time_set_weights(self, *_: str) -> None:
        """Do the work of one run."""
        self.contender.run()
