"""The handler of bus errors leaves other handlers, and signals that are not its own, their way."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the signals of Linux")

PREPARE = """
import faulthandler, mmap, os, resource, signal, sys, tempfile
from dataset_rt import DatasetRuntime, ReaderConfig

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
runtime = DatasetRuntime(num_workers=1)

def open_dataset():
    return runtime.cached_dataset(sys.argv[1], reader_config=ReaderConfig(shuffle=False))
"""


def run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PREPARE + script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("times", [1, 2])
def test_a_handler_that_was_installed_between_ours_reports_a_foreign_fault_once(
    numbers_path: Path, times: int
) -> None:
    script = f"""
first = open_dataset()
for _ in range({times}):
    # It keeps ours as the handler before it, and raises the signal for it once it has reported;
    # and each dataset that is opened puts ours in front of it.
    faulthandler.disable()
    faulthandler.enable()
    second = open_dataset()
with tempfile.TemporaryFile() as file:
    file.truncate(mmap.PAGESIZE)
    foreign = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    file.truncate(0)
    foreign[0]
"""
    ended = run(script, numbers_path)
    assert ended.returncode == -signal.SIGBUS, ended
    assert ended.stderr.count("Fatal Python error: Bus error") == 1


def test_a_signal_that_a_process_sends_ends_it(numbers_path: Path) -> None:
    script = """
dataset = open_dataset()
os.kill(os.getpid(), signal.SIGBUS)
print("still here")
"""
    ended = run(script, numbers_path)
    assert ended.returncode == -signal.SIGBUS, ended
    assert ended.stdout == ""


def test_a_signal_that_was_ignored_is_ignored(numbers_path: Path) -> None:
    script = """
signal.signal(signal.SIGBUS, signal.SIG_IGN)
dataset = open_dataset()
os.kill(os.getpid(), signal.SIGBUS)
print(len(list(dataset)))
"""
    ended = run(script, numbers_path)
    assert (ended.returncode, ended.stdout) == (0, "20\n"), ended
