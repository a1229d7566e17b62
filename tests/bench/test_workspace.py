"""Prepared data is written once, and only what is complete is used."""

from pathlib import Path

import numpy as np
import pytest

from dataset_rt_bench.datagen import row_weights
from dataset_rt_bench.peers import lmdb, memmap
from dataset_rt_bench.workload import Workload
from dataset_rt_bench.workspace import Workspace

WORKLOAD = Workload(record_bytes=100, num_records=50)


def test_prepared_data_is_used_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    first = [
        path.stat().st_mtime_ns
        for path in (
            workspace.memmap(WORKLOAD),
            workspace.lmdb(WORKLOAD),
            workspace.cache(WORKLOAD),
        )
    ]
    again = Workspace(tmp_path)
    second = [
        path.stat().st_mtime_ns
        for path in (again.memmap(WORKLOAD), again.lmdb(WORKLOAD), again.cache(WORKLOAD))
    ]
    assert second == first


@pytest.mark.parametrize("peer", ["memmap", "lmdb"])
def test_data_of_an_interrupted_preparation_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: str
) -> None:
    def write_a_part(path: Path, *_: object, **__: object) -> int:
        path.write_bytes(b"part")
        raise KeyboardInterrupt

    workspace = Workspace(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr({"memmap": memmap, "lmdb": lmdb}[peer], "write", write_a_part)
        with pytest.raises(KeyboardInterrupt):
            getattr(workspace, peer)(WORKLOAD)
    path = getattr(workspace, peer)(WORKLOAD)
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    if peer == "memmap":
        assert path.stat().st_size == WORKLOAD.payload_bytes
    else:
        records = lmdb.LmdbRecords(path, WORKLOAD.record_bytes)
        assert len(records.payload(WORKLOAD.num_records - 1)) == WORKLOAD.record_bytes
        records.close()


def test_lmdb_keeps_the_metadata(tmp_path: Path) -> None:
    records = lmdb.LmdbRecords(Workspace(tmp_path).lmdb(WORKLOAD), WORKLOAD.record_bytes)
    _, metadata = records.sample(7)
    records.close()
    assert metadata == {"record_id": 7, "label": "class_0007", "score": 3.5}


def test_records_are_drawn_by_weight_where_they_are_shuffled(tmp_path: Path) -> None:
    workload = Workload(record_bytes=1, num_records=20_000)
    workspace = Workspace(tmp_path)
    weights = row_weights(workload.num_records)
    drawn = weights[workspace.drawn_order(workload)]
    heavy, light = np.count_nonzero(weights == 2), np.count_nonzero(weights == 1)
    often, seldom = np.count_nonzero(drawn == 2), np.count_nonzero(drawn == 1)
    assert 1.9 < (often / heavy) / (seldom / light) < 2.1
    with workspace.dataset(workload, shuffle=False) as dataset:
        assert dataset.draws(0, 5).tolist() == [0, 1, 2, 3, 4]
