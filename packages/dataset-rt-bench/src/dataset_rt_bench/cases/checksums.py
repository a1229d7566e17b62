"""Checksums: what verifying each record costs, for samples, batches and arrays."""

from collections.abc import Callable
from functools import partial

from dataset_rt_bench.cases import arrays, batch, iterate
from dataset_rt_bench.cases.batch import BATCH_SIZE
from dataset_rt_bench.cases.contender import Case, Contender


def _case(name: str, what: str, set_up: Callable[..., Contender]) -> Case:
    return Case(
        name=f"checksums-{name}",
        question=f"{what}, with checksums verified, against the same without",
        item="samples",
        scale="record_size",
        subject="verified",
        contenders={"verified": set_up, "unverified": partial(set_up, verify_reads=False)},
    )


ITERATE_CASE = _case("iterate", "shuffled samples, one by one", iterate.dataset_rt)
BATCH_CASE = _case("batch", f"shuffled payloads, {BATCH_SIZE} at a time", batch.dataset_rt)
ARRAYS_CASE = _case("arrays", f"shuffled images, {BATCH_SIZE} stacked", arrays.dataset_rt)
