"""The list of all cases, by name."""

from collections.abc import Mapping
from typing import Final

from dataset_rt_bench.cases import (
    arrays,
    batch,
    checksums,
    cold,
    draw,
    get_item,
    iterate,
    loader,
    sequential,
    sizes,
    views,
    weights,
    write,
)
from dataset_rt_bench.cases import open as open_case
from dataset_rt_bench.cases.contender import Case

CASES: Final[Mapping[str, Case]] = {
    case.name: case
    for case in (
        write.CASE,
        open_case.CASE,
        open_case.FIRST_SAMPLE_CASE,
        draw.CASE,
        draw.PERMUTATION_CASE,
        weights.CASE,
        iterate.CASE,
        sequential.CASE,
        get_item.CASE,
        batch.CASE,
        views.CASE,
        arrays.CASE,
        checksums.ITERATE_CASE,
        checksums.BATCH_CASE,
        checksums.ARRAYS_CASE,
        cold.ITERATE_CASE,
        cold.BATCH_CASE,
        *loader.CASES,
        sizes.CASE,
    )
}
"""All cases, in the order in which they are run."""
