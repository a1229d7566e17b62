"""Sources that misbehave: each gets its own clear result, and nobody else suffers."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import (
    BuilderProcessError,
    CacheInput,
    CacheIOError,
    CacheWriteError,
    CacheWriteSuccess,
    ConfigError,
    DatasetRuntime,
    ReaderConfig,
    WriterConfig,
    WriterProfilerConfig,
    fingerprint_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Plain:
    """A source that behaves, and pickles."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __iter__(self) -> Iterator[CacheInput]:
        for number in range(20):
            yield CacheInput(str(number).encode() * 10, {"number": number})


class Unspeakable(Plain):
    """Raises an exception that has no text."""

    def __iter__(self) -> Iterator[CacheInput]:
        raise UnspeakableError
        yield


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Exits(Plain):
    """Ends its program."""

    def __iter__(self) -> Iterator[CacheInput]:
        yield CacheInput(b"", {"number": 0})
        sys.exit("nothing more to do")


class CannotBeUnpickled(Plain):
    """Arrives in no process."""

    def __setstate__(self, _state: Any) -> None:
        raise RuntimeError("not here")


class UncountablePlain(Plain):
    """Has a length that cannot be had."""

    def __len__(self) -> int:
        raise RuntimeError("no length")


@pytest.mark.parametrize("num_processes", [0, 2])
def test_the_others_go_on_whatever_one_raises(
    runtime: DatasetRuntime, tmp_path: Path, num_processes: int
) -> None:
    config = WriterConfig(num_processes=num_processes)
    sources = [Unspeakable("bad"), Plain("good")]
    bad, good = runtime.write_cache(sources, tmp_path, writer_config=config)
    assert isinstance(bad, CacheWriteError)
    assert "UnspeakableError: (its message cannot be had: RuntimeError)" in bad.message
    assert good == CacheWriteSuccess("good", tmp_path / "good")


@pytest.mark.parametrize("num_processes", [0, 1])
def test_an_exit_is_no_result(runtime: DatasetRuntime, tmp_path: Path, num_processes: int) -> None:
    config = WriterConfig(num_processes=num_processes)
    with pytest.raises(SystemExit, match="nothing more to do"):
        runtime.write_cache(Exits("exits"), tmp_path, writer_config=config)
    assert list(tmp_path.iterdir()) == []


def test_sources_that_reach_no_process_are_results_also_if_all_are_such(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    class Local(Plain):
        """Cannot be pickled."""

    config = WriterConfig(num_processes=2)
    local, arrives = runtime.write_cache(
        [Local("a"), CannotBeUnpickled("b")], tmp_path, writer_config=config
    )
    assert "cannot be sent to a process" in getattr(local, "message", "")
    assert isinstance(arrives, CacheWriteError)
    assert isinstance(arrives.exception, BuilderProcessError)
    assert "RuntimeError: not here" in arrives.message
    assert "__main__" not in arrives.message
    (alone,) = runtime.write_cache([Local("a")], tmp_path, writer_config=config)
    assert isinstance(alone, CacheWriteError)


@pytest.mark.parametrize("num_processes", [0, 1])
def test_a_length_that_cannot_be_had_is_not_shown(
    runtime: DatasetRuntime,
    tmp_path: Path,
    num_processes: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = WriterConfig(show_progress=True, num_processes=num_processes)
    (result,) = runtime.write_cache(UncountablePlain("s"), tmp_path, writer_config=config)
    assert isinstance(result, CacheWriteSuccess)
    assert "s: 20" in capsys.readouterr().err


class ClosedTerminal(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_bars_that_cannot_be_shown_cost_no_build(
    runtime: DatasetRuntime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    (result,) = runtime.write_cache(
        Plain("s"), tmp_path, writer_config=WriterConfig(show_progress=True)
    )
    assert isinstance(result, CacheWriteSuccess)
    assert "progress is not shown any more" in caplog.text


def test_what_closing_a_source_raises_does_not_hide_an_interrupt(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    class BadlyClosed:
        name = "s"

        def __iter__(self) -> Iterator[CacheInput]:
            try:
                yield CacheInput(b"", {})
                os.kill(os.getpid(), signal.SIGINT)
                while True:
                    yield CacheInput(b"", {})
            finally:
                raise RuntimeError("close failed")

    with pytest.raises(KeyboardInterrupt):
        runtime.write_cache(BadlyClosed(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_property_that_fails_inside_is_not_taken_for_missing(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    class Fingerprinted(Plain):
        @property
        def fingerprint(self) -> object:
            return self.no_such_attribute  # type: ignore[attr-defined]

    (result,) = runtime.write_cache(Fingerprinted("s"), tmp_path)
    assert isinstance(result, CacheWriteError)
    assert "AttributeError" in result.message
    assert "no_such_attribute" in result.message


def test_a_forked_child_cannot_go_on_with_the_build_of_its_parent(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    class Forks(Plain):
        def __iter__(self) -> Iterator[CacheInput]:
            yield CacheInput(b"", {"number": 0})
            child = os.fork()
            if child == 0:
                yield CacheInput(b"child", {"number": 1})
                return
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 7
            yield CacheInput(b"parent", {"number": 1})

    parent = os.getpid()
    (result,) = runtime.write_cache(Forks("s"), tmp_path)
    if os.getpid() != parent:
        is_refused = isinstance(result, CacheWriteError) and "that it forked" in result.message
        os._exit(7 if is_refused else 1)
    assert isinstance(result, CacheWriteSuccess), result
    with runtime.cached_dataset(result.path, reader_config=ReaderConfig(shuffle=False)) as dataset:
        assert [sample.data for sample in dataset] == [b"", b"parent"]


def test_a_base_that_disappears_is_the_source_s_error(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    base = tmp_path / "base"

    class Removes(Plain):
        def __iter__(self) -> Iterator[CacheInput]:
            yield from super().__iter__()
            base.rename(tmp_path / "moved")

    first, second = runtime.write_cache([Removes("first"), Plain("second")], base)
    assert isinstance(first, CacheWriteError)
    assert isinstance(second, CacheWriteError)
    assert "No such file or directory" in second.message


def test_a_profile_that_cannot_be_written_is_refused_before_anything_is_built(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    profiler = WriterProfilerConfig(enabled=True, path=tmp_path / "missing" / "profile.json")
    with pytest.raises(CacheIOError, match="cannot write the profile of the writer"):
        runtime.write_cache(
            Plain("s"), tmp_path / "base", writer_config=WriterConfig(profiler=profiler)
        )
    assert not (tmp_path / "base").exists()


def test_samples_that_were_kept_are_not_given_up_silently(
    runtime: DatasetRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Continuable(Plain):
        fails = True

        def __iter__(self) -> Iterator[CacheInput]:
            return self.iter_from(0)

        def iter_from(self, start: int) -> Iterator[CacheInput]:
            for number in range(start, 100):
                if self.fails and number == 90:
                    raise RuntimeError
                yield CacheInput(bytes(100), {"number": number})

    source = Continuable("s")
    small = WriterConfig(max_shard_bytes=1000)
    (result,) = runtime.write_cache(source, tmp_path, writer_config=small)
    assert "80 samples in complete shards are kept" in getattr(result, "message", "")
    source.fails = False
    with caplog.at_level(logging.WARNING, logger="dataset_rt.writer"):
        (result,) = runtime.write_cache(
            source, tmp_path, writer_config=WriterConfig(max_shard_bytes=2000)
        )
    assert isinstance(result, CacheWriteSuccess)
    assert "begins anew: what an earlier build kept of it, 80 samples" in caplog.text


def test_a_finished_cache_that_lacks_a_file_is_no_success(
    runtime: DatasetRuntime, tmp_path: Path, write: Callable[..., Path]
) -> None:
    path = write(Plain("s"), tmp_path)
    (path / "shards" / "000000.bin").unlink()
    (result,) = runtime.write_cache(Plain("s"), tmp_path)
    assert isinstance(result, CacheWriteError)
    assert "000000.bin is missing" in result.message
    assert "hint: remove the directory" in result.message


def test_a_cache_replaced_under_a_reader_is_not_mixed_up(
    runtime: DatasetRuntime, tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    path = write(list_source("s", [CacheInput(b"old", {"n": 1})], fingerprint=1), tmp_path)
    config = ReaderConfig(backend="pread", verify_reads=False)
    with runtime.cached_dataset(path, reader_config=config) as dataset:
        new = list_source("s", [CacheInput(b"new", {"n": 2})], fingerprint=2)
        write(new, tmp_path, writer_config=WriterConfig(on_stale="rebuild"))
        with pytest.raises(Exception, match="was replaced after its cache was opened"):
            _ = dataset.rows[0]


class TestFingerprints:
    @pytest.mark.parametrize("fingerprint", ["\udc80", {"\udc80": 1}])
    def test_text_that_is_none_is_refused(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Any, fingerprint: Any
    ) -> None:
        source = list_source("s", [CacheInput(b"", {})], fingerprint=fingerprint)
        (result,) = runtime.write_cache(source, tmp_path)
        assert isinstance(result, CacheWriteError)
        assert isinstance(result.exception, ConfigError)
        assert "lone surrogate" in result.message

    def test_one_that_contains_itself_is_refused(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Any
    ) -> None:
        fingerprint: list[Any] = []
        fingerprint.append(fingerprint)
        source = list_source("s", [CacheInput(b"", {})], fingerprint=fingerprint)
        (result,) = runtime.write_cache(source, tmp_path)
        assert "nested too deeply" in getattr(result, "message", "")

    def test_odd_and_long_differences_are_shown_in_one_short_line(
        self, runtime: DatasetRuntime, tmp_path: Path, list_source: Any
    ) -> None:
        for value in ("a" * 10_000, "b" * 10_000):
            source = list_source("s", [CacheInput(b"", {})], fingerprint={"\x1b[2J\n": value})
            (result,) = runtime.write_cache(source, tmp_path)
        message = getattr(result, "message", "")
        assert json.dumps("\x1b[2J\n") in message
        assert "\x1b" not in message
        assert len(message) < 1500

    def test_a_dangling_link_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        with pytest.raises(CacheIOError, match="No such file"):
            fingerprint_files(tmp_path)
