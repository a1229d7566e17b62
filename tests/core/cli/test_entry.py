"""The command line as a whole: usage, failures, terminals, pipes and a missing extra."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len

from dataset_rt import CachedDataset, CacheInput, DatasetRuntime
from tests.core.cli.running import Outcome, run_in_terminal, run_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


STYLE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["head"], "missing argument 'PATH'"),
        (["info"], "missing argument 'PATH...'"),
        (["info", "--colour", "x"], "no such option: --colour"),
        (["fetch", "x"], "no such command 'fetch'"),
        (["head", "-n", "many", "x"], "invalid value for '--count' / '-n'"),
        (["head", "-n", "0", "x"], "--count is 0, expected an integer from 1"),
        (["stats", "--top", "-1", "x"], "--top is -1, expected an integer from 1"),
    ],
)
def test_bad_usage_is_refused_in_one_line(
    run: Callable[..., Outcome], arguments: list[str], message: str
) -> None:
    outcome = run(*arguments)
    assert (outcome.status, outcome.output) == (2, "")
    lines = outcome.errors.splitlines()
    assert lines[0].startswith(f"error: {message}")
    assert all(line.startswith("hint: ") for line in lines[1:])
    outcome = run(*arguments, "--json")
    assert outcome.status == 2
    assert outcome.document["error"].startswith(message)


def test_without_arguments_the_commands_are_listed(run: Callable[..., Outcome]) -> None:
    outcome = run()
    assert outcome.status == 0
    for command in ("info", "head", "stats", "verify", "gc"):
        assert f" {command} " in outcome.output


@pytest.mark.parametrize("command", ["info", "head", "stats", "verify", "gc"])
def test_every_command_explains_itself(run: Callable[..., Outcome], command: str) -> None:
    outcome = run(command, "--help")
    assert outcome.status == 0
    assert "--json" in outcome.output


def test_the_version_is_printed(run: Callable[..., Outcome]) -> None:
    import dataset_rt  # noqa: PLC0415 - for its version only

    assert run("--version").output == f"dataset-rt {dataset_rt.__version__}\n"


def test_names_and_paths_cannot_speak_to_the_terminal(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    base = tmp_path / "evil\x1b]0;title\x07 \u202e"
    base.mkdir()
    shown = run("info", base).output + run("verify", base).errors + run("gc", base).output
    assert "evil\\x1b]0;title\\x07 \\u202e" in shown
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_a_path_that_is_no_unicode_is_shown_escaped(
    run: Callable[..., Outcome], pets: Path, tmp_path: Path
) -> None:
    link = tmp_path / os.fsdecode(b"caf\xe9")
    link.symlink_to(pets)
    path = str(link)
    assert "caf\\udce9" in run("info", path).output
    assert run("info", path, "--json").document["entries"][0]["path"] == path
    assert run("verify", path).status == 0
    assert run("stats", path).status == 0


def test_ctrl_c_ends_with_its_status(
    run: Callable[..., Outcome], pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(DatasetRuntime, "verify_cache", interrupted)
    assert run("verify", pets) == (130, "", "error: interrupted\n")
    outcome = run("verify", pets, "--json")
    assert (outcome.status, outcome.document) == (130, {"error": "interrupted"})


def test_a_file_that_cannot_be_read_is_one_line(
    run: Callable[..., Outcome], pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied", str(pets / "index.bin"))

    monkeypatch.setattr(CachedDataset, "_open", refuse)
    assert run("head", pets) == (2, "", f"error: permission denied: {pets / 'index.bin'}\n")


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_goes_away_ends_it_silently(pets: Path, extra: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "dataset_rt.cli", "head", str(pets), *extra]
    completed = subprocess.run(
        command, stdout=theirs, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(theirs)
    assert (completed.returncode, completed.stderr) == (141, b"")


def test_a_pipe_gets_whole_lines(
    tmp_path: Path, list_source: Any, write: Callable[..., Path]
) -> None:
    columns = {f"column number {number}": number for number in range(50)}
    path = write(list_source("wide", [CacheInput(b"", columns)]), tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    output = run_process("info", path, env=environment).stdout
    (line,) = [line for line in output.splitlines() if "column number 0 " in line]
    assert "column number 49 (int)" in line


def test_an_encoding_without_the_characters_gets_others(pets: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    completed = run_process("stats", pets, env=environment)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "pets \\xfc" in completed.stdout
    assert "#" * 40 in completed.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a POSIX terminal")
@pytest.mark.parametrize("columns", [32, 60])
def test_lines_fit_a_narrow_terminal(pets: Path, columns: int) -> None:
    for command in ("info", "head", "stats"):
        shown = run_in_terminal(columns, command, pets, NO_COLOR="1")
        lines = STYLE.sub("", shown).splitlines()
        assert max(cell_len(line) for line in lines) <= columns


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a POSIX terminal")
def test_nothing_is_lost_in_the_narrowest_terminal(pets: Path) -> None:
    shown = STYLE.sub("", run_in_terminal(12, "stats", pets, NO_COLOR="1"))
    assert re.search(r" 20  50\.0%  █+\r\n", shown)
    assert "compression  none\r\n" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a POSIX terminal")
def test_colours_are_for_terminals_that_want_them(pets: Path) -> None:
    cyan = "\x1b[36m"
    assert cyan in run_in_terminal(80, "stats", pets)
    assert cyan not in run_in_terminal(80, "stats", pets, NO_COLOR="1")


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a POSIX terminal")
def test_verify_shows_a_bar_in_a_terminal_only(pets: Path) -> None:
    assert "100%" in run_in_terminal(80, "verify", pets)
    assert run_process("verify", pets).stderr == ""


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_names_it(missing: str) -> None:
    program = (
        f"import sys; sys.modules['{missing}'] = None\n"
        "from dataset_rt.cli import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "info", "x"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr == (
        f"error: the command line needs {missing}, which is not installed\n"
        'hint: pip install "dataset-rt[cli]"\n'
    )
    completed = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=False, timeout=60
    )
    assert completed.returncode == 2
    assert json.loads(completed.stdout)["hint"] == 'pip install "dataset-rt[cli]"'


def test_importing_the_package_leaves_the_extra_alone() -> None:
    program = (
        "import sys, dataset_rt, dataset_rt.cli\n"
        "print([name for name in ('typer', 'rich') if name in sys.modules])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert completed.stdout == "[]\n"
