"""Cuts a list of records into the pieces that peers which read many at a time are asked for."""

from collections.abc import Iterator, Sequence
from typing import Final

MAX_RECORDS: Final = 256
MAX_BYTES: Final = 16 << 20
"""What a piece holds at most; a training loop would not keep more than this read ahead."""


def records_per_chunk(record_bytes: int) -> int:
    """Return how many records of one size are read at a time.

    Example:
        >>> records_per_chunk(1 << 10), records_per_chunk(1 << 20), records_per_chunk(1 << 30)
        (256, 16, 1)
    """
    return max(1, min(MAX_RECORDS, MAX_BYTES // record_bytes))


def chunks(indices: Sequence[int], record_bytes: int) -> Iterator[Sequence[int]]:
    """Yield the indices in pieces, in order.

    Example:
        >>> [len(chunk) for chunk in chunks(range(600), record_bytes=1)]
        [256, 256, 88]
    """
    length = records_per_chunk(record_bytes)
    for start in range(0, len(indices), length):
        yield indices[start : start + length]
