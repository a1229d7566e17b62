"""The recipe for torchrun in the documentation, run as it stands there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.docs.pages import ROOT, fences

RUN_SECONDS = 120


def test_the_recipe_for_torchrun_trains_and_ends(
    write_numbers: Callable[[int], Path], tmp_path: Path
) -> None:
    (recipe,) = [
        fence
        for fence in fences(ROOT / "docs/guide/ecosystem.md")
        if fence.reason_not_run and Path(__file__).name in fence.reason_not_run
    ]
    script = tmp_path / "train.py"
    script.write_text(recipe.text)
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    ended = subprocess.run(
        [*launched, "--nproc-per-node", "2", script, write_numbers(50)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "epoch 0: 4 batches on each of 2 ranks",
        "epoch 1: 4 batches on each of 2 ranks",
    ]
    assert (tmp_path / "last.pt").exists()
