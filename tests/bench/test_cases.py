"""Each case runs on little data, and its contenders do the same work."""

import multiprocessing
from pathlib import Path

import pytest

from dataset_rt_bench.cases import cold, loader
from dataset_rt_bench.cases.contender import Case, Contender, Delivery
from dataset_rt_bench.cases.draw import DRAWS_PER_RUN
from dataset_rt_bench.cases.open import OPENS_PER_RUN
from dataset_rt_bench.cases.registry import CASES
from dataset_rt_bench.page_cache import files_below, resident_bytes
from dataset_rt_bench.peers.catalogue import PEERS
from dataset_rt_bench.session import run_case
from dataset_rt_bench.unavailable import UnavailableError
from dataset_rt_bench.workload import Workload, row_workload
from dataset_rt_bench.workspace import Workspace

# The library leaves it to the collector to close its tar files.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO name=.*/webdataset/:"
    "pytest.PytestUnraisableExceptionWarning"
)

# Two full batches and a short one; payloads on both sides of the size where LMDB's are not copied
# twice.
SMALL = Workload(record_bytes=1 << 10, num_records=600)
LARGE = Workload(record_bytes=20 << 10, num_records=600)
ROWS = row_workload(2_000)

RECORD_CASES = [case for case in CASES.values() if case.scale != "row_count"]
# How loaders start has a test of its own, with workers that start quickly.
ROW_CASES = [
    case for case in CASES.values() if case.scale == "row_count" and case.name != "loader-start"
]


def set_up(case: Case, workload: Workload, workspace: Workspace) -> dict[str, Contender]:
    contenders = {}
    for name, make in case.contenders.items():
        try:
            contenders[name] = make(workspace, workload)
        except UnavailableError:
            # A library of others that is not installed, or caches that the file system keeps.
            assert name in PEERS or name.startswith("webdataset") or case.name.startswith("cold")
    return contenders


@pytest.mark.parametrize("workload", [SMALL, LARGE], ids=lambda workload: workload.title)
@pytest.mark.parametrize(
    "case", [case for case in RECORD_CASES if case.name != "loader-workers"], ids=lambda c: c.name
)
def test_contenders_deliver_the_same_payloads_in_the_same_order(
    case: Case, workload: Workload, workspace: Workspace
) -> None:
    deliveries = {}
    for name, contender in set_up(case, workload, workspace).items():
        contender.prepare()
        assert contender.run() == workload.num_records
        if contender.delivery is not None:
            deliveries[name] = contender.delivery()
        contender.teardown()
    if case.subject not in deliveries:
        pytest.skip("the page cache of this file system cannot be emptied")
    subject = deliveries[case.subject]
    assert subject.items == workload.num_records
    assert subject.checksum != 0
    assert set(deliveries.values()) == {subject}, deliveries


def test_loaders_with_workers_deliver_every_sample(workspace: Workspace) -> None:
    # Each spawned worker would import torch anew; how workers start is not what is tested here.
    preload = ["torch", "dataset_rt_torch", "dataset_rt_bench.cases.loader"]
    multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    case = loader.case("loader-workers", loader.Workers(2, start_method="forkserver"))
    measurements = run_case(case, SMALL, workspace, repeats=1).measurements
    assert {each.items for each in measurements} == {SMALL.num_records}


@pytest.mark.parametrize("case", ROW_CASES, ids=lambda case: case.name)
def test_cases_about_rows_handle_the_same_number_of_items(case: Case, workspace: Workspace) -> None:
    measurements = run_case(case, ROWS, workspace, repeats=1).measurements
    assert len(measurements) == len(case.contenders)
    expected = {
        "draw": DRAWS_PER_RUN,
        "draw-permutation": DRAWS_PER_RUN,
        "weights": ROWS.num_records,
        "open": OPENS_PER_RUN,
        "first-sample": OPENS_PER_RUN,
    }
    assert {each.items for each in measurements} == {expected[case.name]}


def test_runs_of_a_shuffled_case_read_the_same_records_again(workspace: Workspace) -> None:
    contender = CASES["iterate"].contenders["dataset_rt"](workspace, SMALL)
    assert contender.delivery is not None
    first = contender.delivery()
    contender.prepare()
    contender.run()
    assert contender.delivery() == first
    contender.teardown()


@pytest.mark.parametrize("case", [cold.ITERATE_CASE, cold.BATCH_CASE], ids=lambda case: case.name)
def test_cold_files_are_cold_whoever_read_them_before(case: Case, workspace: Workspace) -> None:
    workload = Workload(record_bytes=64 << 10, num_records=300)
    files = [*files_below(workspace.cache(workload)), workspace.memmap(workload)]
    contenders = set_up(case, workload, workspace)
    if len(contenders) < len(case.contenders):
        pytest.skip("the page cache of this file system cannot be emptied")
    # Everyone comes after everyone else.
    for contender in (*contenders.values(), *reversed(contenders.values())):
        contender.prepare()
        own = files[-1:] if contender is contenders["parallel pread"] else files[:-1]
        assert sum(map(resident_bytes, own)) < workload.payload_bytes // 20
        contender.run()
        contender.finish()
    for contender in contenders.values():
        contender.teardown()


@pytest.mark.parametrize("name", CASES)
def test_the_documentation_lists_each_case(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "benchmarks.md"
    assert f"`{name}`" in page.read_text(encoding="utf-8")


def test_writing_leaves_nothing_behind(workspace: Workspace) -> None:
    run_case(CASES["write"], SMALL, workspace, repeats=1)
    assert list((workspace.directory / "scratch").iterdir()) == []


def test_a_contender_that_is_not_available_is_left_out_and_named(workspace: Workspace) -> None:
    def missing(*_: object) -> Contender:
        raise UnavailableError("its library is not installed")

    def present(*_: object) -> Contender:
        return Contender(lambda: 1, lambda: Delivery.of([b"a"]))

    case = Case(
        "a-case", "a question", "items", "record_size", "one", {"one": present, "two": missing}
    )
    outcome = run_case(case, SMALL, workspace, repeats=1)
    assert [each.contender for each in outcome.measurements] == ["one"]
    assert outcome.skipped == {"two": "its library is not installed"}


def test_nothing_is_measured_without_the_subject(workspace: Workspace) -> None:
    def missing(*_: object) -> Contender:
        raise UnavailableError("the disk is a rumour")

    def present(*_: object) -> Contender:
        return Contender(lambda: pytest.fail("it was run"), None)

    case = Case(
        "a-case", "a question", "items", "record_size", "one", {"one": missing, "two": present}
    )
    outcome = run_case(case, SMALL, workspace, repeats=1)
    assert outcome.measurements == []
    assert outcome.skipped == {"one": "the disk is a rumour"}
