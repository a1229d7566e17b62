"""Files that are cut short while they are open give an error, never a crash or wrong values."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

from dataset_rt import CachedDataset, CacheInput, CorruptCacheError, DatasetRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUM_ROWS = 3_000


class Named:
    name = "named"

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(NUM_ROWS):
            yield CacheInput(b"x" * 100, {"number": number, "name": f"name {number}"})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, write: Callable[..., Path]) -> Path:
    return write(Named(), tmp_path_factory.mktemp("whole"))


@pytest.fixture
def cut(runtime: DatasetRuntime, whole: Path, tmp_path: Path) -> Callable[..., CachedDataset]:
    """Open a copy, read all of it, then cut one of its files to a part of its length."""

    def cut_file(file: str, part: float) -> CachedDataset:
        path = tmp_path / "copy"
        shutil.copytree(whole, path)
        dataset = runtime.cached_dataset(path)
        assert len(list(dataset)) == NUM_ROWS
        size = (path / file).stat().st_size
        os.truncate(path / file, int(size * part))
        return dataset

    return cut_file


PARTS = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.9, 0.99]


@pytest.mark.parametrize("part", PARTS)
def test_the_table_is_refused(cut: Callable[..., CachedDataset], part: float) -> None:
    dataset = cut("metadata.arrow", part)
    with pytest.raises(CorruptCacheError, match=r"metadata\.arrow"):
        dataset.get_metadata()


@pytest.mark.parametrize("part", PARTS)
def test_no_sample_has_wrong_metadata(cut: Callable[..., CachedDataset], part: float) -> None:
    dataset = cut("metadata.arrow", part)
    with pytest.raises(CorruptCacheError):
        list(dataset)
    for row in range(0, NUM_ROWS, 10):
        with pytest.raises(CorruptCacheError):
            dataset.rows[row]
    with pytest.raises(CorruptCacheError):
        _ = dataset.rows[:].metadata["name"]


@pytest.mark.parametrize("part", PARTS)
def test_no_payload_is_wrong(cut: Callable[..., CachedDataset], part: float) -> None:
    dataset = cut("shards/000000.bin", part)
    lost = next(iter(dataset.caches)).samples - 1
    with pytest.raises(CorruptCacheError):
        dataset.rows[lost]
    with pytest.raises(CorruptCacheError):
        check_batches(dataset)


def check_batches(dataset: CachedDataset) -> None:
    for batch in dataset.iter_batches(64):
        assert set(batch.data) == {b"x" * 100}


def test_a_table_that_was_handed_out_stays_what_it_is(
    runtime: DatasetRuntime, whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "other"
    shutil.copytree(whole, path)
    table = runtime.cached_dataset(path).get_metadata()
    os.truncate(path / "metadata.arrow", 0)
    assert table["number"].to_list() == list(range(NUM_ROWS))
    assert table["name"].dtype == pl.String
    assert table["name"][-1] == f"name {NUM_ROWS - 1}"
