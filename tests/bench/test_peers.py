"""Each peer keeps the records as they were, payload and metadata, in every way it reads them."""

import warnings
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from dataset_rt_bench.datagen import BenchmarkSource
from dataset_rt_bench.peers import catalogue
from dataset_rt_bench.peers.catalogue import PEERS, Peer
from dataset_rt_bench.unavailable import UnavailableError
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

# The library leaves it to the collector to close its tar files.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO name=.*/webdataset/:"
    "pytest.PytestUnraisableExceptionWarning"
)

# More than one chunk of records that are read in one call, on both sides of LMDB's zero copies.
WORKLOADS = [Workload(100, 600), Workload(20 << 10, 300)]
EXPECTED = {
    workload: [(bytes(record.data), dict(record.metadata)) for record in BenchmarkSource(workload)]
    for workload in WORKLOADS
}


def opened(workspace: Workspace, peer: Peer, workload: Workload) -> Any:
    with warnings.catch_warnings():
        # What other libraries deprecate as they are imported is theirs.
        warnings.simplefilter("ignore")
        try:
            return workspace.peer(peer, workload)
        except UnavailableError as error:
            pytest.skip(str(error))


def named(peers: list[Peer]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("peer", peers, ids=lambda peer: peer.name)


sizes = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.title)


@sizes
@named(list(PEERS.values()))
def test_all_records_come_in_order(workspace: Workspace, peer: Peer, workload: Workload) -> None:
    records = opened(workspace, peer, workload)
    assert list(records.in_order()) == EXPECTED[workload]
    records.close()


@sizes
@named([peer for peer in PEERS.values() if peer.access != "in order"])
def test_records_are_read_by_number(workspace: Workspace, peer: Peer, workload: Workload) -> None:
    records = opened(workspace, peer, workload)
    numbers = [(number * 7) % workload.num_records for number in range(280)] + [5, 5, 0]
    expected = [EXPECTED[workload][number] for number in numbers]
    assert list(records.samples(numbers)) == expected
    assert [records.sample(number) for number in numbers[-3:]] == expected[-3:]
    records.close()


@sizes
@named([peer for peer in PEERS.values() if peer.access == "in batches"])
def test_payloads_are_read_in_batches(workspace: Workspace, peer: Peer, workload: Workload) -> None:
    records = opened(workspace, peer, workload)
    numbers = [9, 3, 3, 250]
    gathered = records.gather(numbers)
    assert len(gathered) == len(numbers)
    payloads = [bytes(payload) for payload in records.payloads_of(gathered)]
    assert payloads == [EXPECTED[workload][number][0] for number in numbers]
    records.close()


def test_a_library_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_version(distribution: str) -> str:
        raise PackageNotFoundError(distribution)

    monkeypatch.setattr(catalogue, "version", no_version)
    with pytest.raises(UnavailableError, match=r"^pylance is not installed$"):
        Workspace(tmp_path).peer(PEERS["lance"], WORKLOADS[0])


def test_a_library_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    broken = Peer("broken", "no_such_module", "lmdb", "in order")
    with pytest.raises(UnavailableError, match=r"^lmdb cannot be imported: No module named"):
        Workspace(tmp_path).peer(broken, WORKLOADS[0])
