"""The example of the guide is one text, wherever it stands, and runs as it is."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, fences

EXAMPLE = ROOT / "examples" / "train_cached.py"
# The example was given to us and has to run unchanged: whoever edits it breaks that promise.
SHA256 = "af6748ce8c53099655443b2823ec476898f90d273a60ab8dbed0e38383e64058"


def test_the_example_is_the_one_that_was_given() -> None:
    assert hashlib.sha256(EXAMPLE.read_bytes()).hexdigest() == SHA256


@pytest.mark.parametrize("page", ["README.md", "docs/guide/pytorch.md"])
def test_a_page_shows_the_example_as_it_is(page: str) -> None:
    programs = [fence.text for fence in fences(ROOT / page) if fence.is_program]
    assert EXAMPLE.read_text() in programs


def test_the_example_prints_four_batches_of_eight_and_does_so_again(tmp_path: Path) -> None:
    for _ in ("on an empty folder", "on the cache that the first run left"):
        completed = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLE],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.stderr == ""
        assert completed.stdout.splitlines() == ["torch.Size([8, 2]) torch.Size([8])"] * 4
