"""What DatasetRT is held to; whole lines are the benchmark's verdict on a change."""

from typing import Final

from dataset_rt_bench.cases.weights import PEAK
from dataset_rt_bench.workload import ROW_PAYLOAD_BYTES

KIB: Final = 1 << 10

# (case, contender, payload size): the least number of times that the subject is as fast.
GOALS: Final = {
    ("write", "lmdb", KIB): 1.0,
    ("write", "lmdb", 100 * KIB): 1.0,
    ("open", "1,000 rows", ROW_PAYLOAD_BYTES): 0.5,
    ("draw", "numpy searchsorted", ROW_PAYLOAD_BYTES): 5.0,
    ("draw-permutation", "numpy searchsorted", ROW_PAYLOAD_BYTES): 1.0,
    ("weights", "numpy cumsum", ROW_PAYLOAD_BYTES): 0.25,
    ("iterate", "numpy array", KIB): 0.6,
    ("iterate", "numpy array", 100 * KIB): 0.8,
    ("iterate", "numpy memmap", KIB): 0.9,
    ("iterate", "numpy memmap", 100 * KIB): 1.0,
    ("iterate", "lmdb", KIB): 1.5,
    ("iterate", "lmdb", 100 * KIB): 1.0,
    ("get-item", "lmdb", KIB): 0.8,
    ("batch", "numpy fancy index", KIB): 1.5,
    ("batch", "numpy fancy index", 100 * KIB): 1.2,
    ("batch", "memcpy", 100 * KIB): 0.7,
    ("arrays", "memcpy", 100 * KIB): 0.6,
    ("arrays", "pickle.loads + np.stack", 100 * KIB): 10.0,
    ("checksums-iterate", "unverified", 100 * KIB): 0.85,
    ("checksums-batch", "unverified", 100 * KIB): 0.85,
    ("checksums-arrays", "unverified", 100 * KIB): 0.85,
    ("cold-iterate", "parallel pread", 100 * KIB): 0.8,
    ("cold-batch", "parallel pread", 100 * KIB): 0.8,
    ("loader", "numpy memmap", KIB): 0.85,
    ("loader", "numpy memmap", 100 * KIB): 0.85,
    ("loader", "lmdb", KIB): 1.1,
    ("loader", "lmdb", 100 * KIB): 1.1,
    ("loader-workers", "numpy memmap", KIB): 1.0,
    ("loader-workers", "numpy memmap", 100 * KIB): 1.0,
    ("loader-workers", "lmdb", KIB): 1.0,
    ("loader-workers", "lmdb", 100 * KIB): 1.0,
    ("loader-batches", "sample by sample", KIB): 6.0,
    ("loader-arrays", "memcpy", 100 * KIB): 0.5,
}

# (case, payload size): the least number of items that the subject handles each second.
#
# Views of large payloads have no goal: verifying them in place is bound by the memory.
RATE_GOALS: Final = {("views", KIB): 5e6}

# (case, fact): the most that the subject may take.
FACT_LIMITS: Final = {("weights", PEAK): 24.0}


def goal(case: str, contender: str, record_bytes: int) -> float | None:
    """Return the ratio to reach against a contender, or None where there is no goal.

    Example:
        >>> goal("iterate", "numpy array", 1024)
        0.6
    """
    return GOALS.get((case, contender, record_bytes))


def rate_goal(case: str, record_bytes: int) -> float | None:
    """Return how many items each second the subject is to handle, or None.

    Example:
        >>> rate_goal("views", 1024)
        5000000.0
    """
    return RATE_GOALS.get((case, record_bytes))


def fact_limit(case: str, fact: str) -> float | None:
    """Return the most that a fact about the subject may be, or None.

    Example:
        >>> fact_limit("weights", "peak bytes per row")
        24.0
    """
    return FACT_LIMITS.get((case, fact))
