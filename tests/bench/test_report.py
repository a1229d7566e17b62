"""The report shows ratios against the subject, and judges them by the goals."""

import json

import pytest

from dataset_rt_bench.cases.iterate import CASE
from dataset_rt_bench.cases.open import CASE as OPEN_CASE
from dataset_rt_bench.cases.views import CASE as VIEWS_CASE
from dataset_rt_bench.cases.weights import CASE as WEIGHTS_CASE
from dataset_rt_bench.cases.weights import PEAK
from dataset_rt_bench.environment import Environment
from dataset_rt_bench.report import to_json, to_markdown
from dataset_rt_bench.session import Outcome, Session
from dataset_rt_bench.timing import Measurement
from dataset_rt_bench.workload import Workload, row_workload

ENVIRONMENT = Environment(
    build_profile="release",
    versions={"python": "3.11.9"},
    operating_system="Linux 6",
    processor="A CPU",
    logical_cpus=8,
    usable_cpus=2,
    memory_bytes=None,
    file_system=None,
    load_average=None,
)


def session(numpy_seconds: float) -> Session:
    measurements = [
        Measurement("dataset_rt", items=1000, seconds=(1.0, 1.0, 1.0)),
        Measurement("numpy array", items=1000, seconds=(numpy_seconds,) * 3),
        Measurement("lmdb", items=1000, seconds=(2.0, 3.0, 1.5)),
    ]
    outcome = Outcome(CASE, Workload(1 << 10, 1000), measurements)
    return Session(ENVIRONMENT, repeats=3, outcomes=[outcome], load_average_after=0.5)


def rows(markdown: str) -> dict[str, list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: rest for name, *rest in cells}


def test_a_row_shows_rate_ratio_and_range() -> None:
    table = rows(to_markdown(session(numpy_seconds=0.7)))
    assert table["dataset_rt"] == ["1,000", "1", "", "", ""]
    assert table["lmdb"] == ["500", "1", "2.00", "1.50 to 3.00", "1.50 met"]


def test_bytes_per_second_are_shown_only_where_payloads_matter() -> None:
    outcome = Outcome(
        OPEN_CASE,
        row_workload(1000),
        [Measurement("many rows", 20, (1.0,)), Measurement("1,000 rows", 20, (0.6,))],
    )
    markdown = to_markdown(Session(ENVIRONMENT, 1, [outcome], None))
    assert "MB/s" in to_markdown(session(0.7))
    assert "| contender | opens/s | ratio | range | goal |" in markdown
    assert rows(markdown)["1,000 rows"] == ["33", "0.60", "0.60 to 0.60", "0.50 met"]


def test_a_goal_is_met_or_missed() -> None:
    assert rows(to_markdown(session(0.7)))["numpy array"][-1] == "0.60 met"
    assert rows(to_markdown(session(0.5)))["numpy array"][-1] == "0.60 MISSED"


def test_what_the_machine_does_not_tell_is_left_out() -> None:
    markdown = to_markdown(session(0.7))
    assert "- system: Linux 6, A CPU, 2 of 8 CPUs usable\n" in markdown
    assert "- load average: unknown before, 0.50 after\n" in markdown


def test_json_holds_every_time_and_the_ratios() -> None:
    document = json.loads(to_json(session(0.7)))
    subject, numpy_array, lmdb = document["outcomes"][0]["contenders"]
    assert subject["seconds"] == [1.0, 1.0, 1.0]
    assert "ratio" not in subject
    assert numpy_array["goal"] == 0.6
    assert lmdb["ratio"] == {"of_medians": 2.0, "lowest": 1.5, "highest": 3.0}
    assert document["environment"]["usable_cpus"] == 2


def test_what_was_skipped_is_named_with_the_reason() -> None:
    skipped = {"lance": "pylance is not installed"}
    measurements = [Measurement("dataset_rt", 1000, (1.0,))]
    outcomes = [
        Outcome(CASE, Workload(1 << 10, 1000), each, skipped) for each in (measurements, [])
    ]
    some, nothing = outcomes
    markdown = to_markdown(Session(ENVIRONMENT, 1, [some], None))
    assert markdown.endswith("\n\nSkipped: lance (pylance is not installed).\n")
    empty = to_markdown(Session(ENVIRONMENT, 1, [nothing], None))
    assert "| contender |" not in empty
    assert "Skipped: lance (pylance is not installed)." in empty
    (document,) = json.loads(to_json(Session(ENVIRONMENT, 1, [nothing], None)))["outcomes"]
    assert (document["contenders"], document["skipped"]) == ([], skipped)


@pytest.mark.parametrize(("peak", "verdict"), [(23.5, "met"), (24.5, "MISSED")])
def test_facts_have_a_column_and_a_limit(peak: float, verdict: str) -> None:
    measurements = [
        Measurement("dataset_rt", 1000, (1.0,), {PEAK: peak}),
        Measurement("numpy cumsum", 1000, (0.2,)),
    ]
    outcome = Outcome(WEIGHTS_CASE, row_workload(1000), measurements)
    session = Session(ENVIRONMENT, 1, [outcome], None)
    markdown = to_markdown(session)
    assert f"| contender | rows/s | {PEAK} | ratio | range | goal |" in markdown
    limit = f"at most 24 {PEAK} {verdict}"
    assert rows(markdown)["dataset_rt"] == ["1,000", f"{peak:.1f}", "", "", limit]
    assert rows(markdown)["numpy cumsum"] == ["5,000", "", "0.20", "0.20 to 0.20", "0.25 MISSED"]
    (document,) = json.loads(to_json(session))["outcomes"]
    assert [each["facts"] for each in document["contenders"]] == [{PEAK: peak}, {}]


@pytest.mark.parametrize(("seconds", "verdict"), [(0.1, "met"), (0.3, "MISSED")])
def test_a_rate_of_the_subject_is_judged(seconds: float, verdict: str) -> None:
    measurement = Measurement("dataset_rt", 1_000_000, (seconds,))
    outcome = Outcome(VIEWS_CASE, Workload(1 << 10, 1_000_000), [measurement])
    table = rows(to_markdown(Session(ENVIRONMENT, 1, [outcome], None)))
    assert table["dataset_rt"][-1] == f"5,000,000/s {verdict}"
