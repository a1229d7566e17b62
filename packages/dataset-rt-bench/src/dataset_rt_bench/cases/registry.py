"""The list of all cases, by name."""

from collections.abc import Mapping
from typing import Final

from dataset_rt_bench.cases import batch, draw, iterate, loader, write
from dataset_rt_bench.cases import open as open_case
from dataset_rt_bench.cases.contender import Case

CASES: Final[Mapping[str, Case]] = {
    case.name: case
    for case in (
        write.CASE,
        open_case.CASE,
        open_case.FIRST_SAMPLE_CASE,
        draw.CASE,
        iterate.CASE,
        batch.CASE,
        loader.CASE,
        loader.WORKERS_CASE,
    )
}
"""All cases, in the order in which they are run."""
