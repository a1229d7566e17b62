"""The parts of a case: contenders, what each run delivers, and the case that joins them."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class Delivery:
    """What one run handed to its caller: equal deliveries make a comparison fair.

    Example:
        >>> Delivery.of([b"ab", b"c"]) == Delivery.of([b"ab", b"c"])
        True
    """

    items: int
    payload_bytes: int
    checksum: int

    @classmethod
    def of(cls, payloads: "Iterable[Buffer]") -> Self:
        """Count payloads and sum up their bytes, in order."""
        items = payload_bytes = checksum = 0
        for payload in payloads:
            items += 1
            payload_bytes += memoryview(payload).nbytes
            checksum = zlib.crc32(payload, checksum)
        return cls(items, payload_bytes, checksum)


def do_nothing() -> None:
    """Stand in for a step that a contender does not need."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case, ready to run.

    Attributes:
        run: The work that is timed; returns how many items it handled.
        delivery: What a run hands over, found without a clock, after at least one run.
        prepare: Done before each run, outside the clock.
        teardown: Releases what the set-up made.
    """

    run: Callable[[], int]
    delivery: Callable[[], Delivery]
    prepare: Callable[[], None] = do_nothing
    teardown: Callable[[], None] = do_nothing


SetUp = Callable[[Workspace, Workload], Contender]
"""Makes a contender ready to run on a workload, preparing data in the workspace."""


@dataclass(frozen=True)
class Case:
    """A question that a benchmark answers, with the contenders that it compares.

    Attributes:
        name: As in ``--cases``.
        question: What is measured, in one line.
        item: What a run counts.
        scale: Whether the workloads differ in record size or in the number of rows.
        subject: The contender that ratios are about.
        contenders: How to set up each one, by name.
    """

    name: str
    question: str
    item: str
    scale: Literal["record_size", "row_count"]
    subject: str
    contenders: Mapping[str, SetUp]
