"""Sizes are read and written in the units that people use."""

import pytest

from dataset_rt_bench.workload import Workload, parse_workload


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1KiBx200000", Workload(1024, 200_000)),
        ("100 kib x 20,000", Workload(102_400, 20_000)),
        ("2MiB*3", Workload(2 << 20, 3)),
        ("64x1_000", Workload(64, 1_000)),
        ("8 B x 10,000,000", Workload(8, 10_000_000)),
    ],
)
def test_a_size_is_read(text: str, expected: Workload) -> None:
    assert parse_workload(text) == expected


@pytest.mark.parametrize("text", ["", "1KiB", "x5", "1KBx5", "1KiBx", "-1x5", "0x5", "5x0"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|not of the form"):
        parse_workload(text)


@pytest.mark.parametrize("workload", [Workload(1024, 200_000), Workload(1000, 1), Workload(3, 10)])
def test_a_title_can_be_read_back(workload: Workload) -> None:
    assert parse_workload(workload.title) == workload
