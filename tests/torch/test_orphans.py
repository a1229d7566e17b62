"""Workers of a process that was killed do not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import multiprocessing, os, signal, sys
from dataset_rt import CacheInput, DatasetRuntime


class Source:
    name = "source"

    def __iter__(self):
        for number in range(20):
            yield CacheInput(bytes(4), {"number": number})


if __name__ == "__main__":
    runtime = DatasetRuntime(num_workers=1)
    dataset = runtime.from_cache_sources(Source(), sys.argv[1]).dataset
    loader = dataset.to_torch_dataloader(batch_size=2, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    if sys.argv[2] == "running":
        next(batches)
    with open(sys.argv[3], "w") as workers:
        print(*(child.pid for child in multiprocessing.active_children()), file=workers)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["starting", "running"])
def test_workers_end_after_their_parent_was_killed(tmp_path: Path, moment: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    found = tmp_path / "workers"
    # No pipe to the script: its workers would hold the other end.
    killed = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "base"), moment, str(found)],
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    workers = [int(word) for word in found.read_text().split()]
    assert len(workers) == 2
    # Importing PyTorch takes a worker seconds; ten more are what it has for noticing.
    deadline = time.monotonic() + 90
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.2)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # Nobody may have reaped it yet.
    with open(f"/proc/{process}/stat") as status:  # noqa: PTH123
        return status.read().rpartition(")")[2].split()[0] != "Z"
