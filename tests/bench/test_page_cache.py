"""Files can be put out of the page cache, or it is said that they cannot."""

import os
from pathlib import Path

import pytest

from dataset_rt_bench import page_cache
from dataset_rt_bench.environment import describe
from dataset_rt_bench.page_cache import drop, files_below, require_droppable, resident_bytes
from dataset_rt_bench.unavailable import UnavailableError

SIZE = 8 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    return path


def test_a_file_that_was_written_is_resident(file: Path) -> None:
    assert resident_bytes(file) == SIZE


def test_a_dropped_file_is_not_resident_until_it_is_read(file: Path) -> None:
    if describe(file.parent).file_system in {"tmpfs", "ramfs"}:
        pytest.skip("files in memory cannot be dropped")
    require_droppable([file])
    # The system may bring single pages back for reasons of its own.
    assert resident_bytes(file) < SIZE // 20
    content = file.read_bytes()
    assert len(content) == SIZE
    assert resident_bytes(file) == SIZE
    drop([file])
    assert resident_bytes(file) < SIZE // 20


def test_files_that_stay_are_noticed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "drop", lambda _: None)
    with pytest.raises(UnavailableError, match=r"^the page cache keeps 8,388,608 of 8,388,608 "):
        require_droppable([file])


def test_a_system_without_advice_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise")
    with pytest.raises(UnavailableError, match="cannot drop files"):
        require_droppable([file])


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert resident_bytes(tmp_path / "empty") == 0


def test_all_files_of_a_directory_are_found(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    paths = [tmp_path / "manifest", tmp_path / "shards" / "one"]
    for path in paths:
        path.touch()
    assert files_below(tmp_path) == paths
    assert files_below(paths[0]) == [paths[0]]
