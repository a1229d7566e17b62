"""How much is read, written or drawn in one run of a case."""

import re
from dataclasses import dataclass
from typing import Final

UNITS: Final = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20}
SIZE_PATTERN: Final = re.compile(r"(\d+)\s*(b|kib|mib)?\s*[x*]\s*([\d_,]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Workload:
    """A number of records, all with payloads of one size.

    Example:
        >>> Workload(record_bytes=1024, num_records=200_000).title
        '1 KiB x 200,000'
    """

    record_bytes: int
    num_records: int

    def __post_init__(self) -> None:
        """Refuse sizes that no case can run."""
        if self.record_bytes < 1:
            raise ValueError(f"record_bytes is {self.record_bytes}, expected at least 1")
        if self.num_records < 1:
            raise ValueError(f"num_records is {self.num_records}, expected at least 1")

    @property
    def title(self) -> str:
        """The sizes as a person writes them."""
        return f"{format_bytes(self.record_bytes)} x {self.num_records:,}"

    @property
    def slug(self) -> str:
        """The sizes as part of a file name."""
        return f"{self.record_bytes}x{self.num_records}"

    @property
    def payload_bytes(self) -> int:
        """The bytes of all payloads together."""
        return self.record_bytes * self.num_records


RECORD_WORKLOADS: Final = (Workload(1 << 10, 200_000), Workload(100 << 10, 20_000))
QUICK_RECORD_WORKLOADS: Final = (Workload(1 << 10, 20_000), Workload(100 << 10, 1_000))

# The sweep over record sizes, for the plot: more bytes each than the caches of a CPU hold.
SWEEP_WORKLOADS: Final = (
    Workload(1 << 10, 100_000),
    Workload(4 << 10, 50_000),
    Workload(16 << 10, 16_000),
    Workload(64 << 10, 4_000),
    Workload(256 << 10, 1_000),
    Workload(1 << 20, 256),
)
QUICK_SWEEP_WORKLOADS: Final = (
    Workload(1 << 10, 2_000),
    Workload(16 << 10, 1_000),
    Workload(256 << 10, 100),
)

# The cases about many rows (open, draw) have payloads so small that only the number of rows counts.
ROW_PAYLOAD_BYTES: Final = 8
FEW_ROWS: Final = 1_000
MANY_ROWS: Final = 10_000_000
QUICK_MANY_ROWS: Final = 200_000


def row_workload(num_rows: int) -> Workload:
    """Return a workload of many rows with tiny payloads.

    Example:
        >>> row_workload(1_000).title
        '8 B x 1,000'
    """
    return Workload(ROW_PAYLOAD_BYTES, num_rows)


def format_bytes(num_bytes: int) -> str:
    """Write a number of bytes with the largest binary unit that divides it.

    Example:
        >>> format_bytes(102_400)
        '100 KiB'
    """
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if num_bytes % factor == 0:
            return f"{num_bytes // factor} {unit}"
    return f"{num_bytes} B"


def parse_workload(text: str) -> Workload:
    """Read a workload such as ``1KiBx200000``.

    Example:
        >>> parse_workload("100KiBx20_000")
        Workload(record_bytes=102400, num_records=20000)
    """
    match = SIZE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"size {text!r} is not of the form 1KiBx200000 (payload size x records)")
    number, unit, records = match.groups()
    num_records = int(records.replace("_", "").replace(",", ""))
    return Workload(int(number) * UNITS[(unit or "").lower()], num_records)
