"""The worked example in the loader contract is what a loader does."""

import re

import pytest

from dataset_rt._core import WindowPlan
from tests.docs.pages import ROOT

BUDGET = 10
BATCH_SIZE = 4
ROW = re.compile(
    r"^\| (?P<ranks>\d) \| (?P<drop_last>True|False) \| (?P<batches>[\d, ]+|none) "
    r"\| (?P<padded>\d+) \| (?P<left_out>\d+) \|$",
    re.MULTILINE,
)
ROWS = [match.groupdict() for match in ROW.finditer((ROOT / "docs/loader-contract.md").read_text())]


def test_the_table_is_found() -> None:
    assert len(ROWS) == 6


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['ranks']}-{row['drop_last']}")
def test_every_rank_gets_the_batches_of_the_table(row: dict[str, str]) -> None:
    for rank in range(int(row["ranks"])):
        plan = WindowPlan(
            budget=BUDGET,
            batch_size=BATCH_SIZE,
            rank=rank,
            world_size=int(row["ranks"]),
            drop_last=row["drop_last"] == "True",
        )
        windows = [plan.window(0, batch) for batch in range(plan.num_batches)]
        sizes = ", ".join(str(stop - start) for start, stop, _ in windows) or "none"
        assert sizes == row["batches"]
        assert (plan.padded_samples, plan.dropped_samples) == (
            int(row["padded"]),
            int(row["left_out"]),
        )
