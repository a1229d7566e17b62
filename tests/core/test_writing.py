"""How caches are written: stale ones, several processes, progress, profile."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import (
    BuilderProcessError,
    CacheInput,
    CacheWriteError,
    CacheWriteSuccess,
    ConfigError,
    DatasetRuntime,
    ShardCompression,
    StaleCacheError,
    WriterConfig,
    WriterProfilerConfig,
    _core,
    fingerprint_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Numbers:
    """A source that pickles, so that other processes can iterate it."""

    def __init__(self, name: str, count: int = 100, fails_at: int | None = None) -> None:
        self.name = name
        self.count = count
        self.fails_at = fails_at

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(self.count):
            if number == self.fails_at:
                raise AwkwardError(number, reason="it had to fail")
            yield CacheInput(f"{self.name} {number}".encode(), {"number": number})


class AwkwardError(Exception):
    """An exception that pickle cannot rebuild."""

    def __init__(self, number: int, *, reason: str) -> None:
        super().__init__(f"number {number}: {reason}")


class KillsItsProcess(Numbers):
    """A source whose process is killed, as for lack of memory."""

    def __iter__(self) -> Iterator[CacheInput]:
        yield CacheInput(b"", {"number": 0})
        os.kill(os.getpid(), signal.SIGKILL)


def contents(runtime: DatasetRuntime, *paths: Path) -> list[bytes]:
    with runtime.cached_dataset(paths) as dataset:
        return [dataset.get_item(info.id, n).data for info in dataset.caches for n in range(2)]


class TestStaleCaches:
    @pytest.fixture
    def base(self, tmp_path: Path, list_source: Any, write: Callable[..., Path]) -> Path:
        write(list_source("s", [CacheInput(b"old", {})] * 2, fingerprint={"version": 1}), tmp_path)
        return tmp_path

    def source(self, list_source: Any) -> Any:
        return list_source("s", [CacheInput(b"new", {})] * 2, fingerprint={"version": 2})

    def test_an_error_is_the_default_and_shows_the_difference(
        self, runtime: DatasetRuntime, base: Path, list_source: Any
    ) -> None:
        (result,) = runtime.write_cache(self.source(list_source), base)
        assert isinstance(result, CacheWriteError)
        assert isinstance(result.exception, StaleCacheError)
        assert "version: the cache has 1, the source has 2" in result.message
        assert 'on_stale="rebuild"' in result.message

    def test_reuse_takes_the_old_cache(
        self, runtime: DatasetRuntime, base: Path, list_source: Any
    ) -> None:
        source = self.source(list_source)
        config = WriterConfig(on_stale="reuse")
        (result,) = runtime.write_cache(source, base, writer_config=config)
        assert result == CacheWriteSuccess("s", base / "s")
        assert source.iterations == 0
        assert contents(runtime, base / "s") == [b"old", b"old"]

    def test_rebuild_writes_anew_while_the_old_cache_goes_on_being_read(
        self, runtime: DatasetRuntime, base: Path, list_source: Any
    ) -> None:
        config = WriterConfig(on_stale="rebuild")
        with runtime.cached_dataset(base / "s") as before:
            (result,) = runtime.write_cache(self.source(list_source), base, writer_config=config)
            assert result == CacheWriteSuccess("s", base / "s")
            assert {sample.data for sample in before} == {b"old"}
        assert contents(runtime, base / "s") == [b"new", b"new"]
        assert [entry.name for entry in base.iterdir()] == ["s"]

    def test_a_rebuild_that_fails_leaves_the_old_cache(
        self, runtime: DatasetRuntime, base: Path, list_source: Any
    ) -> None:
        source = list_source("s", [CacheInput(b"new", {}), "no record"], fingerprint=3)
        config = WriterConfig(on_stale="rebuild")
        (result,) = runtime.write_cache(source, base, writer_config=config)
        assert isinstance(result, CacheWriteError)
        assert contents(runtime, base / "s") == [b"old", b"old"]
        assert [entry.name for entry in base.iterdir()] == ["s"]


def test_two_threads_that_ask_for_one_cache_get_one_build(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    began, goes_on = threading.Event(), threading.Event()
    iterations = []

    class Slow(Numbers):
        def __iter__(self) -> Iterator[CacheInput]:
            iterations.append(threading.get_ident())
            began.set()
            assert goes_on.wait(60)
            yield from super().__iter__()

    results: list[Any] = []

    def build() -> None:
        results.extend(DatasetRuntime(num_workers=1).write_cache(Slow("slow"), tmp_path))

    threads = [threading.Thread(target=build) for _ in range(3)]
    with caplog.at_level(logging.WARNING, logger="dataset_rt.writer"):
        threads[0].start()
        assert began.wait(60)
        for thread in threads[1:]:
            thread.start()
        deadline = time.monotonic() + 60
        while len(caplog.records) < 2:
            assert time.monotonic() < deadline, "nobody said that it waits"
            time.sleep(0.01)
        goes_on.set()
        for thread in threads:
            thread.join()
    assert results == [CacheWriteSuccess("slow", tmp_path / "slow")] * 3
    assert len(iterations) == 1
    assert f"waiting for process {os.getpid()}" in caplog.records[0].getMessage()
    assert "is building cache 'slow'" in caplog.records[0].getMessage()


def test_a_source_that_asks_for_its_own_cache_is_told_so(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    nested: list[Any] = []

    class Nested(Numbers):
        def __iter__(self) -> Iterator[CacheInput]:
            nested.extend(runtime.write_cache([Numbers("other"), Numbers("own")], tmp_path))
            yield from super().__iter__()

    (result,) = runtime.write_cache(Nested("own"), tmp_path)
    assert result == CacheWriteSuccess("own", tmp_path / "own")
    other, own = nested
    assert other == CacheWriteSuccess("other", tmp_path / "other")
    assert isinstance(own, CacheWriteError)
    assert "was asked for by the source that is just being written to it" in own.message


class TestBuilderProcesses:
    config = WriterConfig(num_processes=2)

    def test_results_stand_in_source_order_whatever_became_of_each(
        self, runtime: DatasetRuntime, tmp_path: Path
    ) -> None:
        class Local(Numbers):
            """Defined in a function, so it does not pickle."""

        sources = [
            Numbers("a"),
            Numbers("fails", fails_at=5),
            KillsItsProcess("killed"),
            Local("local"),
            Numbers("b"),
        ]
        a, fails, killed, local, b = runtime.write_cache(
            sources, tmp_path, writer_config=self.config
        )
        assert a == CacheWriteSuccess("a", tmp_path / "a")
        assert b == CacheWriteSuccess("b", tmp_path / "b")
        assert contents(runtime, a.path, b.path) == [b"a 0", b"a 1", b"b 0", b"b 1"]

        assert isinstance(fails, CacheWriteError)
        assert "AwkwardError: number 5: it had to fail" in fails.message
        assert "line" in fails.message
        assert "Traceback" in "".join(getattr(fails.exception, "__notes__", []))

        assert isinstance(killed, CacheWriteError)
        assert isinstance(killed.exception, BuilderProcessError)
        assert "was killed by SIGKILL, likely out of memory" in killed.message

        assert isinstance(local, CacheWriteError)
        assert "cannot be sent to a process" in local.message
        assert "num_processes=0" in local.message
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


class TestProgress:
    @pytest.mark.parametrize("num_processes", [0, 1])
    def test_true_shows_samples_and_rates_of_each_source_and_all_of_them(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        num_processes: int,
    ) -> None:
        config = WriterConfig(show_progress=True, num_processes=num_processes)
        sources = [Numbers("first"), Numbers("second")]
        runtime.write_cache(sources, tmp_path, writer_config=config)
        shown = capsys.readouterr()
        assert shown.out == ""
        for text in ("first: ", "second: ", "100/100", "sample/s", "MB/s", "caches: ", "2/2"):
            assert text in shown.err

    @pytest.mark.parametrize("show_progress", ["auto", False])
    def test_nothing_is_shown_without_a_terminal(
        self,
        runtime: DatasetRuntime,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        show_progress: Any,
    ) -> None:
        config = WriterConfig(show_progress=show_progress)
        (result,) = runtime.write_cache(Numbers("s"), tmp_path, writer_config=config)
        assert isinstance(result, CacheWriteSuccess)
        runtime.verify_cache(result.path, show_progress=show_progress)
        assert capfd.readouterr() == ("", "")

    def test_a_verification_shows_bytes(
        self, runtime: DatasetRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (result,) = runtime.write_cache(Numbers("s"), tmp_path)
        assert isinstance(result, CacheWriteSuccess)
        runtime.verify_cache(result.path, show_progress=True)
        assert "s: 100%" in capsys.readouterr().err


def test_the_profile_says_what_was_built_reused_and_failed(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    base, profile = tmp_path / "base", tmp_path / "profile.json"
    runtime.write_cache(Numbers("old"), base)
    config = WriterConfig(
        profiler=WriterProfilerConfig(enabled=True, path=profile),
        shard_compression=ShardCompression(algo="lz4"),
    )
    sources = [Numbers("old"), Numbers("new", 5000), Numbers("bad", fails_at=1)]
    runtime.write_cache(sources, base, writer_config=config)
    old, new, bad = json.loads(profile.read_text())["sources"]
    assert old == {"name": "old", "state": "reused"}
    assert bad == {"name": "bad", "state": "failed"}
    assert (new["name"], new["state"], new["samples"]) == ("new", "built", 5000)
    assert new["payload_bytes"] == sum(len(f"new {number}") for number in range(5000))
    in_order = ("source", "extraction", "waiting", "finish")
    assert all(new[f"{part}_seconds"] > 0 for part in in_order)
    assert sum(new[f"{part}_seconds"] for part in in_order) <= new["total_seconds"]
    assert new["compression_seconds"] > 0
    assert new["disk_sync_seconds"] > 0


def test_a_profile_needs_a_path() -> None:
    with pytest.raises(ConfigError, match="path is None, expected the JSON file to write"):
        WriterProfilerConfig(enabled=True)


@pytest.mark.parametrize("level", [-8, 23, "3", 1.5, True])
def test_levels_beyond_those_of_zstd_are_refused(level: Any) -> None:
    with pytest.raises(ConfigError, match="level is "):
        ShardCompression(algo="zstd", level=level)


@pytest.mark.parametrize("algo", ["none", "lz4"])
def test_a_level_for_a_codec_without_levels_is_refused(algo: Any) -> None:
    with pytest.raises(ConfigError, match=f"as algo '{algo}' has no levels"):
        ShardCompression(algo=algo, level=3)


class TestFileFingerprints:
    def test_size_and_time_or_content_of_each_file_below_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "b.bin").write_bytes(b"bb")
        (tmp_path / "ä.txt").write_bytes(b"a")
        times = fingerprint_files(tmp_path)
        assert {name: entry["size"] for name, entry in times.items()} == {
            "deep/b.bin": 2,
            "ä.txt": 1,
        }
        contents = fingerprint_files(tmp_path, content=True)
        os.utime(tmp_path / "ä.txt", (1, 1))
        assert fingerprint_files(tmp_path) != times
        assert fingerprint_files(tmp_path, content=True) == contents
        (tmp_path / "ä.txt").write_bytes(b"x")
        assert fingerprint_files(tmp_path, content=True) != contents

    def test_a_tree_that_moves_keeps_its_fingerprint(self, tmp_path: Path) -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "a").write_bytes(b"a")
        before = fingerprint_files([tmp_path / "one" / "a"])
        (tmp_path / "one").rename(tmp_path / "two")
        assert (
            fingerprint_files(tmp_path / "two") == before == fingerprint_files(tmp_path / "two/a")
        )

    def test_what_is_missing_or_empty_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="No such file") as missing:
            fingerprint_files(tmp_path / "missing")
        assert missing.value.filename == str(tmp_path / "missing")
        with pytest.raises(ConfigError, match="which holds no file"):
            fingerprint_files(tmp_path)


def test_a_lock_is_released_when_nothing_was_built(tmp_path: Path) -> None:
    lock = _core.try_lock_build(str(tmp_path), "s")
    assert isinstance(lock, _core.BuildLock)
    held = _core.try_lock_build(str(tmp_path), "s")
    assert isinstance(held, _core.BuildHolder)
    assert held.process == os.getpid()
    lock.release()
    assert list(tmp_path.iterdir()) == []
