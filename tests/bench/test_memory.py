"""The peak of memory is that of the work, and what was freed before does not hide it."""

import numpy as np
import pytest

from dataset_rt_bench.memory import peak_growth_bytes

SIZE = 64 << 20
TOLERANCE = 16 << 20


def growth(sizes: list[int]) -> int:
    def work() -> None:
        for size in sizes:
            np.ones(size, dtype=np.uint8)

    found = peak_growth_bytes(work)
    if found is None:
        pytest.skip("the system does not tell of peaks")
    return found


def test_memory_that_is_freed_before_the_end_counts() -> None:
    assert abs(growth([SIZE]) - SIZE) < TOLERANCE


def test_a_peak_is_not_a_sum() -> None:
    assert abs(growth([SIZE, SIZE, SIZE]) - SIZE) < TOLERANCE


def test_an_earlier_peak_is_forgotten() -> None:
    growth([2 * SIZE])
    assert growth([1]) < TOLERANCE


def test_memory_that_the_allocator_kept_counts_again() -> None:
    def blocks() -> list[bytes]:
        return [bytes(32 << 10) for _ in range(SIZE // (32 << 10))]

    freed = blocks()
    # A block above them keeps the allocator from giving them back by itself.
    above = bytes(32 << 10)
    del freed
    found = peak_growth_bytes(blocks)
    assert above
    if found is None:
        pytest.skip("the system does not tell of peaks")
    assert abs(found - SIZE) < TOLERANCE
