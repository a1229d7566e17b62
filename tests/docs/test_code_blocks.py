"""Every Python block in the documentation, and every use of our command, does what it shows."""

import contextlib
import importlib.util
import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dataset_rt.cli import main as run_command_line
from tests.docs.pages import ROOT, Fence, fences, name_of, pages

# Run by a test of its own, which also makes sure that the pages show it as it is.
EXAMPLE = (ROOT / "examples" / "train_cached.py").read_text()
PROMPT = "$ dataset-rt "
LANGUAGES = {"console", "json", "python", "text", "toml"}
PAGES = [page for page in pages() if any(fence.language == "python" for fence in fences(page))]


def run_as_program(fence: Fence, folder: Path) -> str:
    """Run a block as a script of its own, as a reader would who saves and starts it."""
    script = folder / "program.py"
    script.write_text(fence.text)
    completed = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def run_in_session(fence: Fence, names: dict[str, object]) -> str:
    """Run a block after the earlier ones of its page, as in one interpreter session."""
    # Blank lines in front make the line numbers of a traceback those of the page.
    code = compile("\n" * (fence.line - 1) + fence.text, str(fence.page), "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, names)  # noqa: S102 (the pages are our own)
    return output.getvalue()


def run_commands(fence: Fence) -> str:
    """Run the uses of our command in a console block; return the block as it should be."""
    shown = io.StringIO()
    for line in fence.text.splitlines():
        if line.startswith(PROMPT):
            shown.write(f"{line}\n")
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                run_command_line(shlex.split(line.removeprefix(PROMPT)))
    return shown.getvalue()


# What PyTorch Lightning warns of is not for readers to mend.
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for fence in fences(page):
        if fence.reason_not_run or fence.text == EXAMPLE:
            continue
        if fence.language == "console" and fence.text.startswith(PROMPT):
            assert run_commands(fence) == fence.text, f"{name_of(page)}:{fence.line}"
        if fence.language != "python":
            continue
        if fence.needed_module and importlib.util.find_spec(fence.needed_module) is None:
            continue
        output = (
            run_as_program(fence, tmp_path) if fence.is_program else run_in_session(fence, names)
        )
        if fence.expected_output is not None:
            assert output == fence.expected_output, f"{name_of(page)}:{fence.line}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_names_a_known_language(page: Path) -> None:
    """An unnamed block, or one named ``py``, would silently not be run."""
    blocks = fences(page)
    assert [block.line for block in blocks if block.language not in LANGUAGES] == []
    assert sum(line.startswith("```") for line in page.read_text().splitlines()) == 2 * len(blocks)
