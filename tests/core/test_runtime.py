"""The runtime: writes what is missing, reuses what is finished, and gives one result per source."""

from __future__ import annotations

import json
import os
import stat
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import (
    CachedDataset,
    CacheInput,
    CacheIOError,
    CacheNotFoundError,
    CacheSourcesDatasetError,
    CacheSourcesDatasetSuccess,
    CacheWriteError,
    CacheWriteSuccess,
    ConfigError,
    DatasetRuntime,
    ReaderConfig,
    SchemaMismatchError,
    WriterConfig,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDS = [CacheInput(f"record {number}".encode(), {"number": number}) for number in range(10)]
IN_ORDER = ReaderConfig(shuffle=False)


class Failing:
    """Yields some records and then raises."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.is_closed = False

    def __iter__(self) -> Iterator[CacheInput]:
        yield from RECORDS
        raise self.error


class Guarded:
    """A generator that holds a resource while it is suspended."""

    name = "guarded"

    def __init__(self) -> None:
        self.is_released = False

    def __iter__(self) -> Iterator[Any]:
        try:
            yield RECORDS[0]
            yield "no record"
        finally:
            self.is_released = True


def numbers_in(dataset: CachedDataset) -> list[int]:
    return [sample.metadata["number"] for sample in dataset]


def test_thread_counts_are_checked() -> None:
    assert DatasetRuntime(num_workers=3).num_workers == 3
    assert DatasetRuntime().num_workers >= 1
    assert repr(DatasetRuntime(num_workers=3)) == "DatasetRuntime(num_workers=3)"


@pytest.mark.parametrize("num_workers", [0, -1, True, 1.5, "2", 10**6])
def test_wrong_thread_counts_are_refused(num_workers: Any) -> None:
    with pytest.raises(ConfigError, match=r"num_workers is .*, expected an integer from 1 to 1024"):
        DatasetRuntime(num_workers=num_workers)


def test_a_written_cache_holds_every_record(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    (result,) = runtime.write_cache(list_source("records", RECORDS), tmp_path / "new" / "base")
    assert result == CacheWriteSuccess("records", tmp_path / "new" / "base" / "records")
    dataset = runtime.cached_dataset(result.path, reader_config=IN_ORDER)
    assert [(sample.data, dict(sample.metadata)) for sample in dataset] == [
        (record.data, record.metadata) for record in RECORDS
    ]


def test_small_shards_change_nothing_but_the_files(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    config = WriterConfig(max_shard_bytes=20)
    (result,) = runtime.write_cache(list_source("records", RECORDS), tmp_path, writer_config=config)
    assert isinstance(result, CacheWriteSuccess)
    assert len(list((result.path / "shards").iterdir())) == 5
    assert numbers_in(runtime.cached_dataset(result.path, reader_config=IN_ORDER)) == list(
        range(10)
    )


def test_the_base_may_be_a_string(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    (result,) = runtime.write_cache(list_source("records", RECORDS), str(tmp_path))
    assert isinstance(result, CacheWriteSuccess)
    assert len(runtime.cached_dataset(str(result.path))) == 10


def test_a_relative_base_survives_a_change_of_directory(
    runtime: DatasetRuntime,
    tmp_path: Path,
    list_source: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (result,) = runtime.write_cache(list_source("records", RECORDS), "base")
    assert isinstance(result, CacheWriteSuccess)
    dataset = runtime.cached_dataset("base/records", reader_config=IN_ORDER)
    monkeypatch.chdir("/")
    assert result.path == tmp_path / "base" / "records"
    assert numbers_in(dataset) == list(range(10))
    assert dataset.get_metadata()["number"].to_list() == list(range(10))


def test_a_finished_cache_is_not_iterated_again(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    source = list_source("records", RECORDS)
    first = runtime.write_cache(source, tmp_path)
    again = runtime.write_cache(source, tmp_path)
    match runtime.from_cache_sources(source, tmp_path, reader_config=IN_ORDER):
        case CacheSourcesDatasetSuccess(dataset=dataset, results=results):
            assert numbers_in(dataset) == list(range(10))
        case failure:
            pytest.fail(str(failure))
    assert first == again == results
    assert source.iterations == 1


def test_a_failing_source_is_a_result_and_the_others_go_on(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    error = ZeroDivisionError("no such thing")
    sources = [list_source("first", RECORDS), Failing(error), list_source("last", RECORDS)]
    first, failure, last = runtime.write_cache(sources, tmp_path)
    assert isinstance(first, CacheWriteSuccess)
    assert isinstance(last, CacheWriteSuccess)
    assert isinstance(failure, CacheWriteError)
    assert failure.source_name == "failing"
    assert failure.exception is error
    assert "source 'failing' raised ZeroDivisionError: no such thing" in failure.message
    assert f"{Path(__file__).name}, line " in failure.message
    assert "\n" not in failure.message
    lines = "".join(traceback.format_exception(error))
    assert "raise self.error" in lines
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["first", "last"]


def test_a_source_that_failed_can_be_written_later(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    (failure,) = runtime.write_cache(Failing(ValueError("once")), tmp_path)
    assert isinstance(failure, CacheWriteError)
    (success,) = runtime.write_cache(list_source("failing", RECORDS), tmp_path)
    assert isinstance(success, CacheWriteSuccess)
    assert len(runtime.cached_dataset(success.path)) == 10


def test_a_generator_is_closed_when_its_record_is_refused(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    source = Guarded()
    (result,) = runtime.write_cache(source, tmp_path)
    assert isinstance(result, CacheWriteError)
    assert source.is_released


def test_an_empty_source_gives_an_error_and_no_cache(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    (result,) = runtime.write_cache(list_source("nothing", []), tmp_path)
    assert isinstance(result, CacheWriteError)
    assert "nothing" in result.message
    assert "yielded no samples" in result.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("method", ["write_cache", "from_cache_sources"])
def test_interrupts_are_never_results(
    runtime: DatasetRuntime, tmp_path: Path, error: BaseException, method: str
) -> None:
    with pytest.raises(type(error)) as caught:
        getattr(runtime, method)(Failing(error), tmp_path)
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


class TestUnusableBase:
    """A directory that cannot be used raises: it is no single source's fault."""

    @pytest.mark.parametrize("path", [None, 5, b"", "", "nul\0byte"])
    def test_wrong_paths_are_refused(
        self, runtime: DatasetRuntime, list_source: Callable[..., Any], path: Any
    ) -> None:
        with pytest.raises(ConfigError, match=r"path is .*expected a path"):
            runtime.write_cache(list_source("records", RECORDS), path)

    def test_a_file_is_no_directory(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        base = tmp_path / "file"
        base.write_text("not a directory")
        with pytest.raises(CacheIOError, match="is no directory") as caught:
            runtime.write_cache(list_source("records", RECORDS), base)
        assert caught.value.filename == str(base)
        with pytest.raises(OSError, match="directory"):
            runtime.write_cache(list_source("records", RECORDS), base / "below")

    def test_a_read_only_directory_still_serves_what_is_finished(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        list_source: Callable[..., Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        finished = list_source("records", RECORDS)
        runtime.write_cache(finished, tmp_path)
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        if os.geteuid() == 0:  # to whom permission bits say nothing
            monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)
        try:
            (result,) = runtime.write_cache(finished, tmp_path)
            assert isinstance(result, CacheWriteSuccess)
            with pytest.raises(PermissionError, match="cannot write to the directory") as caught:
                runtime.write_cache(list_source("new", RECORDS), tmp_path)
            assert caught.value.filename == str(tmp_path)
        finally:
            tmp_path.chmod(stat.S_IRWXU)


class TestFromCacheSources:
    """Writing and opening in one call."""

    def test_rows_stand_in_source_order(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        sources = [list_source("b", RECORDS[5:]), list_source("a", RECORDS[:5])]
        match runtime.from_cache_sources(sources, tmp_path, reader_config=IN_ORDER):
            case CacheSourcesDatasetSuccess(dataset, results):
                assert numbers_in(dataset) == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
                assert [cache.name for cache in dataset.caches] == ["b", "a"]
                assert [cache.path for cache in dataset.caches] == [
                    tmp_path / "b",
                    tmp_path / "a",
                ]
                assert [cache.samples for cache in dataset.caches] == [5, 5]
                assert [result.source_name for result in results] == ["b", "a"]
            case failure:
                pytest.fail(str(failure))

    def test_a_failed_source_gives_no_dataset_but_keeps_the_others(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        error = ValueError("broken input")
        sources = [list_source("good", RECORDS), Failing(error)]
        match runtime.from_cache_sources(sources, tmp_path):
            case CacheSourcesDatasetError(results, message) as failure:
                assert [type(result) for result in results] == [CacheWriteSuccess, CacheWriteError]
                assert message.startswith("1 of 2 sources failed\n")
                assert "ValueError: broken input" in message
                assert failure.exception is error
            case success:
                pytest.fail(str(success))
        assert (tmp_path / "good").is_dir()

    def test_schemas_that_differ_give_an_error_result(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        sources = [
            list_source("numbers", RECORDS),
            list_source("labels", [CacheInput(b"", {"label": "x"})]),
        ]
        result = runtime.from_cache_sources(sources, tmp_path)
        assert isinstance(result, CacheSourcesDatasetError)
        assert isinstance(result.exception, SchemaMismatchError)
        for word in ("numbers", "labels", "number", "label"):
            assert word in result.message

    def test_a_wrong_config_is_refused_before_anything_is_written(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        source = list_source("records", RECORDS)
        wrong: Any = {"seed": 3}
        with pytest.raises(ConfigError, match="reader_config is a dict, expected ReaderConfig"):
            runtime.from_cache_sources(source, tmp_path, reader_config=wrong)
        with pytest.raises(ConfigError, match="writer_config is a dict, expected WriterConfig"):
            runtime.from_cache_sources(source, tmp_path, writer_config=wrong)
        assert source.iterations == 0
        assert list(tmp_path.iterdir()) == []


class TestCachedDataset:
    """Opening finished caches."""

    def test_one_path_is_a_list_of_one(self, runtime: DatasetRuntime, numbers_path: Path) -> None:
        for paths in (numbers_path, str(numbers_path), [numbers_path], iter([str(numbers_path)])):
            assert len(runtime.cached_dataset(paths)) == 20

    @pytest.mark.parametrize(
        ("paths", "message"),
        [
            ([], "paths is empty"),
            (None, "paths is None"),
            (5, "paths is 5"),
            (b"bytes", "paths is b'bytes'"),
            (["fine", 5], r"paths\[1\] is 5"),
            ("", "paths is empty"),
        ],
    )
    def test_wrong_paths_are_refused(
        self, runtime: DatasetRuntime, paths: Any, message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            runtime.cached_dataset(paths)

    def test_what_is_no_cache_is_not_found(
        self, runtime: DatasetRuntime, tmp_path: Path, numbers_path: Path
    ) -> None:
        with pytest.raises(CacheNotFoundError, match="nowhere"):
            runtime.cached_dataset(tmp_path / "nowhere")
        with pytest.raises(FileNotFoundError, match=r"hint: .*not its parent"):
            runtime.cached_dataset(numbers_path.parent)

    def test_one_cache_twice_is_refused_naming_both(
        self, runtime: DatasetRuntime, tmp_path: Path, numbers_path: Path
    ) -> None:
        link = tmp_path / "link"
        link.symlink_to(numbers_path)
        with pytest.raises(SchemaMismatchError) as caught:
            runtime.cached_dataset([numbers_path, link])
        assert str(numbers_path) in str(caught.value)
        assert str(link) in str(caught.value)

    def test_union_fills_missing_columns_with_nulls(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        sources = [
            list_source("numbers", [CacheInput(b"n", {"number": 1})]),
            list_source("labels", [CacheInput(b"l", {"label": "x"})]),
        ]
        results = runtime.write_cache(sources, tmp_path)
        paths = [result.path for result in results if isinstance(result, CacheWriteSuccess)]
        with pytest.raises(SchemaMismatchError):
            runtime.cached_dataset(paths)
        config = ReaderConfig(shuffle=False, schema="union")
        dataset = runtime.cached_dataset(paths, reader_config=config)
        assert [sample.metadata for sample in dataset] == [
            {"number": 1, "label": None},
            {"number": None, "label": "x"},
        ]

    def test_differing_types_are_refused_even_in_a_union(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
    ) -> None:
        sources = [
            list_source("integers", [CacheInput(b"", {"x": 1})]),
            list_source("texts", [CacheInput(b"", {"x": "1"})]),
        ]
        results = runtime.write_cache(sources, tmp_path)
        paths = [result.path for result in results if isinstance(result, CacheWriteSuccess)]
        with pytest.raises(SchemaMismatchError, match="x"):
            runtime.cached_dataset(paths, reader_config=ReaderConfig(schema="union"))

    def test_a_cache_can_be_moved_and_linked(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        write: Callable[..., Path],
        list_source: Callable[..., Any],
    ) -> None:
        path = write(list_source("records", RECORDS), tmp_path / "old")
        moved = tmp_path / "moved elsewhere"
        path.rename(moved)
        link = tmp_path / "link"
        link.symlink_to(moved)
        for place in (moved, link):
            assert numbers_in(runtime.cached_dataset(place, reader_config=IN_ORDER)) == list(
                range(10)
            )

    def test_whole_files_are_validated_on_request(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        write: Callable[..., Path],
        list_source: Callable[..., Any],
    ) -> None:
        source = list_source("records", RECORDS)
        path = write(source, tmp_path, writer_config=WriterConfig(validate_cache=True))
        shard = path / "shards" / "000000.bin"
        content = bytearray(shard.read_bytes())
        content[5] ^= 1
        shard.write_bytes(content)
        with pytest.raises(ValueError, match=r"000000\.bin"):
            runtime.cached_dataset(path, reader_config=ReaderConfig(validate_cache=True))
        config = WriterConfig(validate_cache=True)
        (result,) = runtime.write_cache(source, tmp_path, writer_config=config)
        assert isinstance(result, CacheWriteError)
        assert "000000.bin" in result.message


def test_a_damaged_manifest_is_the_source_s_result(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Callable[..., Any]
) -> None:
    source = list_source("records", RECORDS)
    runtime.write_cache(source, tmp_path)
    manifest = tmp_path / "records" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "samples": 11}))
    (result,) = runtime.write_cache(source, tmp_path)
    assert isinstance(result, CacheWriteError)
    assert "manifest.json" in result.message
