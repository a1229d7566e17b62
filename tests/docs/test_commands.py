"""The commands that the pages tell people to type exist, and CI runs the one for the tests."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, fences, name_of, pages

TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMAND = re.compile(r"\bmake ([a-z][a-z-]*)")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_make_targets_in_a_page_exist(page: Path) -> None:
    blocks = [fence.text for fence in fences(page) if fence.language == "console"]
    in_text = re.findall(r"`make ([a-z][a-z-]*)`", page.read_text())
    named = {target for block in blocks for target in COMMAND.findall(block)} | set(in_text)
    assert named <= TARGETS


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    blocks = [fence.text for fence in fences(ROOT / "README.md") if fence.language == "console"]
    commands = [target for block in blocks for target in COMMAND.findall(block)]
    assert commands == ["example", "test"]
    steps = re.findall(r"^step ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert set(commands) <= set(steps)


def test_every_target_explains_itself() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)$", makefile, re.MULTILINE))
    explained = set(re.findall(r"^([a-z-]+):.*## \w", makefile, re.MULTILINE))
    assert phony == explained
