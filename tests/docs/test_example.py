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


def test_the_example_prints_four_batches_of_eight(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert completed.stdout.splitlines() == ["torch.Size([8, 2]) torch.Size([8])"] * 4
    assert completed.stderr == ""


def test_the_example_runs_again_on_the_cache_that_it_left(tmp_path: Path) -> None:
    runs = [
        subprocess.run(
            [sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
