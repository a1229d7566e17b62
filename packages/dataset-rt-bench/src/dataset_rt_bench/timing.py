"""Runs contenders in turn and turns their times into medians and ratios."""

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from dataset_rt_bench.cases.contender import Contender, Delivery

DEFAULT_REPEATS: Final = 5


class UnequalWorkError(RuntimeError):
    """Contenders of one case delivered different data, so their times cannot be compared."""


@dataclass(frozen=True)
class Measurement:
    """The times of one contender, one per repeat.

    Example:
        >>> Measurement("lmdb", items=100, seconds=(2.0, 1.0, 4.0)).items_per_second
        50.0
    """

    contender: str
    items: int
    seconds: tuple[float, ...]
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def median_seconds(self) -> float:
        """The median time of a run."""
        return median(self.seconds)

    @property
    def items_per_second(self) -> float:
        """How many items the median run handled each second."""
        return self.items / self.median_seconds


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the subject is as another contender.

    Attributes:
        of_medians: The ratio of the median times.
        lowest: The ratio of the repeat that was worst for the subject.
        highest: The ratio of the repeat that was best for the subject.
    """

    of_medians: float
    lowest: float
    highest: float


def ratio(subject: Measurement, other: Measurement) -> Ratio:
    """Compare two contenders of one measurement, repeat by repeat.

    Example:
        >>> subject = Measurement("dataset_rt", items=10, seconds=(1.0, 1.0))
        >>> ratio(subject, Measurement("lmdb", items=10, seconds=(2.0, 3.0)))
        Ratio(of_medians=2.5, lowest=2.0, highest=3.0)
    """
    # Per item, so that contenders may handle different numbers of items in a run.
    scale = subject.items / other.items
    pairs = [
        scale * theirs / ours for ours, theirs in zip(subject.seconds, other.seconds, strict=True)
    ]
    of_medians = scale * other.median_seconds / subject.median_seconds
    return Ratio(of_medians, min(pairs), max(pairs))


def measure(contenders: Mapping[str, Contender], repeats: int) -> list[Measurement]:
    """Time all contenders, interleaved, after one untimed run of each that warms the caches.

    Each repeat runs every contender once, each time beginning with another one, so that a drift
    of the machine (clock speed, other processes) touches all of them alike.

    Raises:
        UnequalWorkError: The contenders delivered different data.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}, expected at least 1")
    items = {}
    deliveries = {}
    facts = {}
    for name, contender in contenders.items():
        contender.prepare()
        items[name] = contender.run()
        if contender.delivery is not None:
            deliveries[name] = contender.delivery()
        facts[name] = contender.facts()
        contender.finish()
    _require_equal(deliveries)

    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for repeat in range(repeats):
        start = repeat % len(names)
        gc.collect()
        for name in names[start:] + names[:start]:
            contender = contenders[name]
            contender.prepare()
            began = time.perf_counter()
            handled = contender.run()
            seconds[name].append(time.perf_counter() - began)
            contender.finish()
            if handled != items[name]:
                raise UnequalWorkError(
                    f"contender {name!r} handled {handled} items in repeat {repeat}, "
                    f"expected {items[name]} as in its first run"
                )
    return [Measurement(name, items[name], tuple(seconds[name]), facts[name]) for name in names]


def _require_equal(deliveries: Mapping[str, Delivery]) -> None:
    if not deliveries:
        return
    (first_name, first), *others = deliveries.items()
    for name, delivery in others:
        if delivery != first:
            raise UnequalWorkError(
                f"contender {name!r} delivered {delivery}, but {first_name!r} delivered {first}"
            )
