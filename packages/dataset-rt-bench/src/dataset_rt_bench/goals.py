"""The ratios that DatasetRT is held to; whole lines are the benchmark's verdict on a change."""

from typing import Final

from dataset_rt_bench.workload import ROW_PAYLOAD_BYTES

KIB: Final = 1 << 10

# (case, contender, payload size): the least number of times that the subject is as fast.
GOALS: Final = {
    ("write", "lmdb", KIB): 1.0,
    ("write", "lmdb", 100 * KIB): 1.0,
    ("open", "1,000 rows", ROW_PAYLOAD_BYTES): 0.5,
    ("iterate", "numpy array", KIB): 0.6,
    ("iterate", "numpy array", 100 * KIB): 0.8,
    ("loader", "lmdb", KIB): 1.0,
    ("loader", "lmdb", 100 * KIB): 1.0,
}


def goal(case: str, contender: str, record_bytes: int) -> float | None:
    """Return the ratio to reach against a contender, or None where there is no goal.

    Example:
        >>> goal("iterate", "numpy array", 1024)
        0.6
    """
    return GOALS.get((case, contender, record_bytes))
