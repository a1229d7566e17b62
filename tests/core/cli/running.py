"""What the tests of the command line share: records, a source that fails, and ways to run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dataset_rt import CacheInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUM_SAMPLES = 40
PAYLOADS = [b"\x1b[2J" + b"x" * number if number > 0 else b"" for number in range(NUM_SAMPLES)]
LABELS = ("cat", "dog", "dog", "owl\x1b[31m")


class Outcome(NamedTuple):
    """How a command ended."""

    status: int
    output: str
    errors: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on standard output; nothing is on standard error."""
        assert self.errors == ""
        document: dict[str, Any] = json.loads(self.output, parse_constant=pytest.fail)
        return document


def records() -> Iterator[CacheInput]:
    """Yield a record with a column of each type, nulls, NaN and control characters among them."""
    for number, payload in enumerate(PAYLOADS):
        yield CacheInput(
            data=payload,
            metadata={
                "label": LABELS[number % 4],
                "number": number,
                "half": float("nan") if number % 10 == 0 else number / 2,
                "even": None if number % 4 == 3 else number % 2 == 0,
                "nothing": None,
            },
        )


class FailingSource:
    """A source that can be continued and fails in the middle, so that its build is left behind."""

    name = "unfinished"

    def __iter__(self) -> Iterator[CacheInput]:
        return self.iter_from(0)

    def iter_from(self, start: int) -> Iterator[CacheInput]:
        for number in range(start, 1000):
            if number == 500:
                raise RuntimeError("the disk of the source is gone")
            yield CacheInput(b"x" * 100, {"number": number})


def run_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dataset_rt.cli", *map(str, arguments)]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


def damage_sample(cache: Path, sample: int) -> None:
    """Flip one byte of a payload; payloads lie in the one shard back to back."""
    place = sum(map(len, PAYLOADS[:sample]))
    shard = cache / "shards" / "000000.bin"
    content = bytearray(shard.read_bytes())
    content[place] ^= 1
    shard.write_bytes(content)


def run_in_terminal(columns: int, *arguments: object, **variables: str) -> str:
    """Run a command in a terminal of this width and return what it shows."""
    import fcntl  # noqa: PLC0415 - POSIX only, as terminals of this kind are
    import pty  # noqa: PLC0415 - same
    import struct  # noqa: PLC0415 - same
    import termios  # noqa: PLC0415 - same

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    if "PYTHONPATH" in os.environ:
        kept["PYTHONPATH"] = os.environ["PYTHONPATH"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dataset_rt.cli", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=kept | variables,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            # Linux says so when the last process lets go of the other end.
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0, shown
    return shown.decode()
