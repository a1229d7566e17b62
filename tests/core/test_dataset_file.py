"""dump_config and from_config: a dataset written down and opened again, also elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dataset_rt import (
    CachedDataset,
    CacheInput,
    CacheIOError,
    CacheNotFoundError,
    ConfigError,
    CorruptCacheError,
    DatasetRuntime,
    ReaderConfig,
    StateMismatchError,
)

Copy = Callable[..., CachedDataset]


@pytest.fixture
def project(tmp_path: Path, numbers_path: Path) -> Path:
    """A folder with a cache of its own, which tests may move and change."""
    shutil.copytree(numbers_path, tmp_path / "project" / "caches" / "numbers")
    return tmp_path / "project"


@pytest.fixture
def dataset(runtime: DatasetRuntime, project: Path) -> CachedDataset:
    return runtime.cached_dataset(
        project / "caches" / "numbers", reader_config=ReaderConfig(seed=11, prefetch_size=5)
    )


def same_stream(one: CachedDataset, other: CachedDataset) -> bool:
    return (
        one.draws(0, 200).tolist() == other.draws(0, 200).tolist()
        and one.get_metadata().equals(other.get_metadata())
        and one.reader_config == other.reader_config
        and len(one) == len(other)
    )


def test_an_untouched_dataset_needs_no_table(dataset: CachedDataset, project: Path) -> None:
    path = dataset.dump_config(project / "run.json")
    assert path == project / "run.json"
    assert sorted(entry.name for entry in project.iterdir()) == ["caches", "run.json"]
    assert same_stream(dataset, CachedDataset.from_config(path))


@pytest.mark.parametrize("in_directory", [True, False])
def test_a_directory_gets_the_default_name(
    dataset: CachedDataset, project: Path, in_directory: bool
) -> None:
    path = dataset.dump_config(project if in_directory else project / "new" / "run.json")
    assert path == project / ("dataset.json" if in_directory else "new/run.json")
    again = CachedDataset.from_config(project if in_directory else str(path))
    assert same_stream(dataset, again)


def test_the_epoch_length_is_kept_and_the_stream_begins_anew(
    dataset: CachedDataset, project: Path
) -> None:
    dataset.set_epoch_len(7)
    list(dataset)
    again = CachedDataset.from_config(dataset.dump_config(project))
    assert len(again) == 7
    assert again.state_dict()["position"] == 0


@pytest.mark.parametrize(
    "edit",
    [
        lambda dataset: dataset.set_weights(np.arange(20)),
        lambda dataset: dataset.update_metadata(dataset.get_metadata()[[3, 3, 17, 0]]),
        lambda dataset: dataset.update_metadata(
            dataset.get_metadata().with_columns(
                split=pl.lit("train"), note=pl.lit(None, dtype=pl.String), half=pl.col("half") + 1
            )
        ),
    ],
    ids=["weights", "rows", "columns"],
)
def test_an_edited_table_comes_back(
    dataset: CachedDataset, project: Path, edit: Callable[[CachedDataset], None]
) -> None:
    edit(dataset)
    path = dataset.dump_config(project / "run.json")
    assert len(list(project.glob("run.*.arrow"))) == 1
    assert same_stream(dataset, CachedDataset.from_config(path))


def test_a_state_fits_the_dataset_that_comes_back(dataset: CachedDataset, project: Path) -> None:
    dataset.set_weights(np.arange(20))
    list(dataset)
    again = CachedDataset.from_config(dataset.dump_config(project))
    again.load_state_dict(dataset.state_dict())
    assert [sample.sample_id for sample in again] == dataset.draws(20, 40).tolist()


def test_writing_again_replaces_file_and_table(dataset: CachedDataset, project: Path) -> None:
    dataset.set_weights(np.arange(20))
    dataset.dump_config(project)
    first = {entry.name for entry in project.glob("*.arrow")}
    dataset.dump_config(project)
    assert {entry.name for entry in project.glob("*.arrow")} == first
    dataset.update_metadata(dataset.get_metadata().head(3))
    dataset.dump_config(project)
    second = {entry.name for entry in project.glob("*.arrow")}
    assert len(second) == 1
    assert second.isdisjoint(first)
    assert same_stream(dataset, CachedDataset.from_config(project))


def test_a_folder_with_caches_and_file_can_be_moved(
    dataset: CachedDataset, project: Path, tmp_path: Path
) -> None:
    dataset.set_weights(np.arange(20))
    draws = dataset.draws(0, 50).tolist()
    path = dataset.dump_config(project / "runs" / "first.json")
    assert str(tmp_path) not in path.read_text()
    project.rename(tmp_path / "moved")
    again = CachedDataset.from_config(tmp_path / "moved" / "runs" / "first.json")
    assert again.caches[0].path == tmp_path / "moved" / "caches" / "numbers"
    assert again.draws(0, 50).tolist() == draws


def test_a_file_reached_through_a_link_finds_its_caches(
    dataset: CachedDataset, project: Path, tmp_path: Path
) -> None:
    dataset.dump_config(project / "runs" / "first.json")
    link = tmp_path / "deep" / "link"
    link.parent.mkdir()
    link.symlink_to(project / "runs")
    assert same_stream(dataset, CachedDataset.from_config(link / "first.json"))
    rewritten = dataset.dump_config(link / "second.json")
    assert same_stream(dataset, CachedDataset.from_config(rewritten))


def test_a_cache_reached_through_a_link_is_stored_by_its_place(
    runtime: DatasetRuntime, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(project / "caches")
    dataset = runtime.cached_dataset(tmp_path / "link" / "numbers")
    path = dataset.dump_config(project)
    assert json.loads(path.read_text())["caches"][0]["path"] == "caches/numbers"


def test_cache_paths_override_the_stored_ones(
    dataset: CachedDataset, project: Path, tmp_path: Path, runtime: DatasetRuntime
) -> None:
    dataset.set_weights(np.arange(20))
    path = dataset.dump_config(tmp_path / "run.json")
    moved = tmp_path / "elsewhere"
    (project / "caches" / "numbers").rename(moved)
    with pytest.raises(CacheNotFoundError, match="numbers"):
        CachedDataset.from_config(path)
    again = CachedDataset.from_config(path, cache_paths=[moved], runtime=runtime)
    assert again.draws(0, 50).tolist() == dataset.draws(0, 50).tolist()


def test_other_caches_are_refused_with_the_differences(
    dataset: CachedDataset,
    project: Path,
    tmp_path: Path,
    write: Callable[..., Path],
    list_source: Callable[..., Any],
) -> None:
    path = dataset.dump_config(project)
    other = write(list_source("other", [CacheInput(b"", {"x": 1})]), tmp_path / "others")
    with pytest.raises(StateMismatchError) as caught:
        CachedDataset.from_config(path, cache_paths=[other])
    assert "cache 'numbers': missing in the dataset" in str(caught.value)
    assert "cache 'other': not in the file" in str(caught.value)
    records = [CacheInput(b"", {"x": number}) for number in range(20)]
    rewritten = write(list_source("numbers", records), tmp_path / "others")
    with pytest.raises(StateMismatchError, match="other content"):
        CachedDataset.from_config(path, cache_paths=[rewritten])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is no dataset file"),
        ({"version": 2}, "has version 2, this release reads version 1"),
        ({"caches": 5}, "caches is 5"),
        ({"caches": [5]}, "id is None"),
        ({"epoch_len": 0}, "epoch_len is 0"),
        ({"epoch_len": True}, "epoch_len is True"),
        ({"reader_config": {"seed": -1}}, "ReaderConfig: seed is -1"),
        ({"table": "../outside.arrow"}, r"table is '../outside.arrow', expected a file name"),
        ({"fingerprint": None}, "fingerprint is None"),
    ],
)
def test_a_damaged_file_is_refused(
    dataset: CachedDataset, project: Path, change: dict[str, Any], message: str
) -> None:
    path = dataset.dump_config(project)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match=message) as caught:
        CachedDataset.from_config(path)
    assert str(path) in str(caught.value)


def test_what_is_no_json_is_refused(project: Path) -> None:
    path = project / "dataset.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match="is no JSON"):
        CachedDataset.from_config(project)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is no JSON"):
        CachedDataset.from_config(project)


def test_a_missing_table_is_named(dataset: CachedDataset, project: Path) -> None:
    dataset.set_weights(np.arange(20))
    path = dataset.dump_config(project)
    (table,) = project.glob("*.arrow")
    table.unlink()
    with pytest.raises(CacheIOError, match=r"\.arrow"):
        CachedDataset.from_config(path)


def test_a_changed_table_is_noticed(dataset: CachedDataset, project: Path) -> None:
    dataset.set_weights(np.arange(20))
    path = dataset.dump_config(project)
    (table,) = project.glob("*.arrow")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    with pytest.raises(CorruptCacheError, match=r"\.arrow has digest .*, its name says"):
        CachedDataset.from_config(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CacheIOError, match=r"nowhere\.json") as caught:
        CachedDataset.from_config(tmp_path / "nowhere.json")
    assert caught.value.filename == str(tmp_path / "nowhere.json")


@pytest.mark.parametrize("failing", [".arrow", ".json"])
def test_a_file_that_cannot_be_written_leaves_nothing(
    dataset: CachedDataset, project: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    dataset.dump_config(project)
    before = {entry.name: entry.is_dir() for entry in project.iterdir()}
    dataset.set_weights(np.arange(20))
    rename = Path.replace

    def no_space(path: Path, target: Path) -> Path:
        if target.suffix == failing:
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(CacheIOError, match="No space left on device"):
        dataset.dump_config(project)
    monkeypatch.undo()
    assert {entry.name: entry.is_dir() for entry in project.iterdir()} == before
    assert len(CachedDataset.from_config(project)) == 20


def test_a_relative_path_gives_an_absolute_one(
    dataset: CachedDataset, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert dataset.dump_config("run.json") == project / "run.json"
    again = CachedDataset.from_config("run.json")
    monkeypatch.chdir("/")
    assert same_stream(dataset, again)


@pytest.mark.parametrize("path", [None, 5, ""])
def test_wrong_paths_are_refused(dataset: CachedDataset, path: Any) -> None:
    with pytest.raises(ConfigError, match="path is"):
        dataset.dump_config(path)
    with pytest.raises(ConfigError, match="path is"):
        CachedDataset.from_config(path)


def test_a_wrong_runtime_is_refused(dataset: CachedDataset, project: Path) -> None:
    wrong: Any = 4
    with pytest.raises(ConfigError, match="runtime is an int, expected DatasetRuntime"):
        CachedDataset.from_config(dataset.dump_config(project), runtime=wrong)
