"""Builds that are killed, interrupted, or run out of space: nothing is lost, and nothing stays."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dataset_rt import CacheWriteError, CacheWriteSuccess, WriterConfig

if TYPE_CHECKING:
    from dataset_rt import DatasetRuntime

DRIVER = Path(__file__).with_name("build_faults.py")
SHIM = Path(__file__).with_name("failing_calls.c")


def run_trials(folder: Path, plan: dict[str, int]) -> list[dict[str, Any]]:
    seed = sum(map(ord, "".join(plan)))
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder), str(seed), json.dumps(plan)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize(
    "plan",
    [{"single": 10}, {"continuable": 8}, {"multi": 5}, {"race": 5}, {"processes": 2}],
    ids=lambda plan: next(iter(plan)),
)
def test_a_build_killed_at_any_moment_leaves_nothing_half_done_and_is_completed_by_a_rerun(
    tmp_path: Path, plan: dict[str, int]
) -> None:
    seen = run_trials(tmp_path, plan)
    assert len(seen) == sum(plan.values())


@pytest.mark.parametrize(
    "plan",
    [{"interrupt": 12}, {"interrupt-continuable": 5}, {"interrupt-sleeping": 3}],
    ids=lambda plan: next(iter(plan)),
)
def test_ctrl_c_ends_a_build_at_any_moment(tmp_path: Path, plan: dict[str, int]) -> None:
    for trial in run_trials(tmp_path, plan):
        # The source would sleep for ten minutes: without the signal this would not end.
        assert trial["seconds"] < 30


def continuable(numbers: range, **attributes: Any) -> Any:
    class Continuable:
        name = "numbers"

        def __iter__(self) -> Any:
            return self.iter_from(0)

        def iter_from(self, start: int) -> Any:
            for number in numbers[start:]:
                if number == attributes.get("fails_at"):
                    raise RuntimeError("the input ended")
                yield str(number).encode() * 20, {"number": number}

    return Continuable()


def test_a_failing_source_that_can_continue_keeps_its_shards_and_says_so(
    runtime: DatasetRuntime, tmp_path: Path
) -> None:
    config = WriterConfig(max_shard_bytes=1000)
    # Far enough behind the first shards that they are on disk: the pipeline holds 256 records.
    failing = continuable(range(4000), fails_at=3000)
    (result,) = runtime.write_cache(failing, tmp_path, writer_config=config)
    assert isinstance(result, CacheWriteError)
    assert "RuntimeError: the input ended" in result.message
    assert "samples in complete shards are kept" in result.message
    assert f"hint: `dataset-rt gc {tmp_path}` removes them" in result.message
    (result,) = runtime.write_cache(continuable(range(4000)), tmp_path, writer_config=config)
    assert isinstance(result, CacheWriteSuccess)
    assert [entry.name for entry in tmp_path.iterdir()] == ["numbers"]
    whole = tmp_path / "whole"
    (reference,) = runtime.write_cache(continuable(range(4000)), whole, writer_config=config)
    assert isinstance(reference, CacheWriteSuccess)
    assert tree(result.path) == tree(reference.path)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def run_with_limits(script: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


BUILD = """
    import sys
    from pathlib import Path
    from dataset_rt import CacheWriteError, CacheWriteSuccess, DatasetRuntime, WriterConfig

    class Source:
        def __init__(self, name, payload_bytes):
            self.name = name
            self.payload_bytes = payload_bytes

        def __iter__(self):
            for number in range(500):
                yield bytes(self.payload_bytes), {"number": number}

    base = Path(sys.argv[1] if len(sys.argv) > 1 else BASE)
    runtime = DatasetRuntime(num_workers=1)
"""


def test_a_file_that_may_not_grow_gives_a_clear_error_and_the_space_back(tmp_path: Path) -> None:
    before = f"""
        BASE = {str(tmp_path)!r}
        {textwrap.indent(textwrap.dedent(BUILD), " " * 8).strip()}
        (small,) = runtime.write_cache(Source("small", 1), base)
        assert isinstance(small, CacheWriteSuccess), small
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        small, large = runtime.write_cache([Source("small", 1), Source("large", 1000)], base)
        assert isinstance(small, CacheWriteSuccess)
        assert isinstance(large, CacheWriteError)
        print(large.exception.errno, large.message)
    """
    code, _, message = run_with_limits(before).partition(" ")
    assert int(code) == errno.EFBIG
    assert "source 'large'" in message
    assert "000000.bin" in message
    assert [entry.name for entry in tmp_path.iterdir()] == ["small"]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed, as it is for the build of the native module"
    library = tmp_path_factory.mktemp("shim") / "failing_calls.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
    subprocess.run(command, check=True)
    return str(library)


# How many calls of each kind a build of this size makes is found out by counting: a limit that no
# build reaches must let it succeed.
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_at_any_call_gives_a_clear_error_and_the_space_back(
    shim: str, tmp_path: Path, call: str
) -> None:
    script = f"""
        import ctypes, json, os
        BASE = {str(tmp_path)!r}
        {textwrap.indent(textwrap.dedent(BUILD), " " * 8).strip()}
        seen = []
        libc = ctypes.CDLL(None)
        (kept,) = runtime.write_cache(Source("kept", 10), base)
        for successes in range(200):
            # The C side reads the environment anew, and counts from here on.
            os.environ["FAIL_AFTER"] = str(successes)
            shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
            ctypes.c_long.in_dll(shim, "calls").value = 0
            os.environ["FAIL_CALL"] = {call!r}
            (result,) = runtime.write_cache(Source("full", 1000), base)
            os.environ["FAIL_CALL"] = ""
            if isinstance(result, CacheWriteSuccess):
                break
            seen.append((result.exception.errno, result.message))
            assert sorted(os.listdir(base)) == ["kept"], os.listdir(base)
            assert runtime.verify_cache(kept.path).is_intact
        print(json.dumps(seen))
    """
    environment = {
        "LD_PRELOAD": shim,
        "FAIL_ERRNO": str(errno.ENOSPC),
        "FAIL_BELOW": str(tmp_path),
        "FAIL_CALL": "",
        "FAIL_AFTER": "0",
    }
    failures = json.loads(run_with_limits(script, environment))
    assert len(failures) >= 5
    for code, message in failures:
        assert code == errno.ENOSPC
        assert "source 'full'" in message
        assert "No space left on device" in message
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["full", "kept"]
