"""The snapshot: small to send, isolated from later edits, removed when nobody needs it."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import ConfigError, DatasetRtError
from dataset_rt_torch.snapshot import remove_abandoned
from tests.torch.loading import FAST_WORKERS, flat, number_of, numbers_of

if TYPE_CHECKING:
    from pathlib import Path

    from dataset_rt import CachedDataset


def make_loader(dataset: CachedDataset, num_workers: int = 0, **options: Any) -> Any:
    return dataset.to_torch_dataloader(
        **{
            "batch_size": 10,
            "seed": 42,
            "sample_transform_fn": number_of,
            "num_workers": num_workers,
            **FAST_WORKERS,
            **options,
        }
    )


def test_what_is_sent_to_a_worker_is_small(skewed: CachedDataset) -> None:
    loader = make_loader(skewed, 1)
    assert len(pickle.dumps(loader.dataset)) < 4096
    assert len(pickle.dumps(loader.collate_fn)) < 4096


@pytest.mark.parametrize("num_workers", [0, 1])
def test_later_edits_do_not_change_a_loader(dataset: CachedDataset, num_workers: int) -> None:
    expected = dataset.draws(0, 50).tolist()
    loader = make_loader(dataset, num_workers)
    dataset.set_weights([1.0] + [0.0] * 49)
    assert flat(numbers_of(loader)) == expected
    assert set(flat(numbers_of(make_loader(dataset)))) == {0}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_closed_dataset_does_not_close_a_loader(dataset: CachedDataset, num_workers: int) -> None:
    loader = make_loader(dataset, num_workers)
    dataset.close()
    assert len(flat(numbers_of(loader))) == 50


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_directory_goes_with_the_loader_at_once(
    dataset: CachedDataset, tmp_path: Path, num_workers: int
) -> None:
    gc.disable()
    try:
        loader = make_loader(dataset, num_workers, work_dir=tmp_path)
        for _batch in loader:
            break
        assert len(list(tmp_path.iterdir())) == 1
        del loader
        # Without a reference cycle no collection is needed, only the end of a read underway.
        for _ in range(1000):
            if not list(tmp_path.iterdir()):
                break
            os.sched_yield()
        assert list(tmp_path.iterdir()) == []
    finally:
        gc.enable()


def test_the_directory_stays_while_an_iterator_lives(
    dataset: CachedDataset, tmp_path: Path
) -> None:
    iterator = iter(make_loader(dataset, 1, work_dir=tmp_path))
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    assert len(flat(numbers_of(iterator))) == 50


def test_a_refused_loader_leaves_no_directory(skewed: CachedDataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="weight"):
        make_loader(skewed, work_dir=tmp_path, replacement=False)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_copy_or_a_forked_child_removes_nothing(dataset: CachedDataset, tmp_path: Path) -> None:
    loader = make_loader(dataset, work_dir=tmp_path)
    copy = pickle.loads(pickle.dumps(loader.dataset))
    del copy
    child = os.fork()
    if child == 0:
        # The child drops its copy of the loader, then leaves without cleaning up.
        del loader
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    assert len(flat(numbers_of(loader))) == 50


def test_snapshots_of_killed_processes_are_removed_and_those_of_living_ones_are_not(
    dataset: CachedDataset, tmp_path: Path
) -> None:
    loader = make_loader(dataset, work_dir=tmp_path)
    (living,) = tmp_path.iterdir()
    child = os.fork()
    if child == 0:
        # A status of its own, so that a failure to build is seen.
        status = 1
        try:
            kept = make_loader(dataset, work_dir=tmp_path)
            status = 0 if len(kept) == 5 else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (tmp_path / "dataset-rt-snapshot-file").touch()
    (tmp_path / "other").mkdir()
    everything = set(tmp_path.iterdir())
    (abandoned,) = (
        path for path in everything if path != living and (path / "snapshot.json").exists()
    )

    remove_abandoned(str(tmp_path))
    assert set(tmp_path.iterdir()) == everything, "all of them are too young"

    for path in everything:
        os.utime(path, (0, 0))
    remove_abandoned(str(tmp_path))
    assert set(tmp_path.iterdir()) == everything - {abandoned}
    assert len(flat(numbers_of(loader))) == 50


SCRIPT_LEAVES_AT = """
import sys
from dataset_rt import DatasetRuntime
from dataset_rt_torch.snapshot import remove_abandoned
from tests.torch.loading import number_of

if __name__ == "__main__":
    dataset = DatasetRuntime(num_workers=1).cached_dataset(sys.argv[1])
    iterators = []
    for num_workers in (0, 2):
        loader = dataset.to_torch_dataloader(
            batch_size=5, sample_transform_fn=number_of, num_workers=num_workers,
            multiprocessing_context="fork", work_dir=sys.argv[2],
        )
        iterators.append(iter(loader))
        next(iterators[-1])
    if sys.argv[3] == "error":
        raise SystemError("on purpose")
"""


@pytest.mark.parametrize("ending", ["plain", "error"])
def test_the_directory_goes_at_exit(write_numbers: Any, tmp_path: Path, ending: str) -> None:
    script = tmp_path / "leave.py"
    script.write_text(SCRIPT_LEAVES_AT, encoding="utf-8")
    work_dir = tmp_path / "work"
    finished = subprocess.run(
        [sys.executable, script, write_numbers(50), work_dir, ending],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == (1 if ending == "error" else 0), finished.stderr
    assert list(work_dir.iterdir()) == []
    if ending == "plain":
        assert finished.stderr == ""


def test_a_work_dir_that_is_a_file_is_refused(dataset: CachedDataset, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for work_dir in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="which is no directory"):
            make_loader(dataset, work_dir=work_dir)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_snapshot_that_something_else_removed_is_named(
    dataset: CachedDataset, tmp_path: Path, num_workers: int
) -> None:
    loader = dataset.to_torch_dataloader(
        num_workers=num_workers, multiprocessing_context="fork", work_dir=tmp_path
    )
    (directory,) = tmp_path.iterdir()
    shutil.rmtree(directory)
    with pytest.raises(DatasetRtError, match=r"the loader's snapshot .* is gone, expected it to"):
        next(iter(loader))
