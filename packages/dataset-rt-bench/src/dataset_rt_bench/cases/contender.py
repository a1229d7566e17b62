"""The parts of a case: contenders, what each run delivers, and the case that joins them."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, Self

from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

if TYPE_CHECKING:
    from typing_extensions import Buffer


MAX_COMPARED: Final = 10_000
"""How many records slow peers read in a run, and of how many the bytes are compared.

Rates are per record, so a contender that takes tens of microseconds for each need not read as many
as one that takes less than one.
"""


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

    @classmethod
    def of_first(cls, payloads: "Iterable[Buffer]") -> Self:
        """Sum up no more payloads than slow peers read."""
        return cls.of(islice(payloads, MAX_COMPARED))


def do_nothing() -> None:
    """Stand in for a step that a contender does not need."""


def no_facts() -> Mapping[str, float]:
    """Stand in for the facts of a contender of which only the time matters."""
    return {}


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case, ready to run.

    Attributes:
        run: The work that is timed; returns how many items it handled.
        delivery: What a run hands over, found without a clock, after at least one run. None for
            a limit, which handles as many bytes, but not the bytes of these records in this order.
        prepare: Done before each run, outside the clock.
        finish: Done after each run, outside the clock, before another contender has its turn.
        teardown: Releases what the set-up made.
        facts: What can be measured apart from time, by name; asked for once, without a clock.
    """

    run: Callable[[], int]
    delivery: Callable[[], Delivery] | None
    prepare: Callable[[], None] = do_nothing
    finish: Callable[[], None] = do_nothing
    teardown: Callable[[], None] = do_nothing
    facts: Callable[[], Mapping[str, float]] = no_facts


SetUp = Callable[[Workspace, Workload], Contender]
"""Makes a contender ready to run on a workload, preparing data in the workspace.

It raises ``UnavailableError`` where the contender cannot take part.
"""

Scale = Literal["record_size", "row_count", "size_sweep"]
"""Whether the workloads of a case differ in record size, in the number of rows, or go through many
record sizes for a plot."""


@dataclass(frozen=True)
class Case:
    """A question that a benchmark answers, with the contenders that it compares.

    Attributes:
        name: As in ``--cases``.
        question: What is measured, in one line.
        item: What a run counts.
        scale: What the workloads differ in.
        subject: The contender that ratios are about.
        contenders: How to set up each one, by name.
    """

    name: str
    question: str
    item: str
    scale: Scale
    subject: str
    contenders: Mapping[str, SetUp]
