"""One version for everything that is released together, written in more than one place."""

import re
import tomllib
from typing import Any

import pytest

import dataset_rt
from tests.packaging.environments import ROOT


def read_toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text())


CARGO_VERSION: str = read_toml("Cargo.toml")["workspace"]["package"]["version"]
MEMBERS = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))


def test_the_workspace_has_the_version_of_the_crates() -> None:
    assert read_toml("pyproject.toml")["project"]["version"] == CARGO_VERSION


@pytest.mark.parametrize("member", MEMBERS)
def test_a_package_has_the_version_of_the_crates(member: str) -> None:
    project = read_toml(f"packages/{member}/pyproject.toml")["project"]
    if member == "dataset-rt-core":
        assert project["dynamic"] == ["version"]
        assert read_toml(f"packages/{member}/Cargo.toml")["package"]["version"] == {
            "workspace": True
        }
    else:
        assert project["version"] == CARGO_VERSION


@pytest.mark.parametrize("member", MEMBERS)
def test_a_package_asks_for_exactly_its_own_version_of_the_others(member: str) -> None:
    project = read_toml(f"packages/{member}/pyproject.toml")["project"]
    extras = project.get("optional-dependencies", {})
    requirements = project["dependencies"] + [entry for extra in extras.values() for entry in extra]
    ours = [entry for entry in requirements if entry.startswith("dataset-rt")]
    assert all(
        re.fullmatch(rf"dataset-rt-\w+(\[\w+\])?=={re.escape(CARGO_VERSION)}", entry)
        for entry in ours
    ), ours


@pytest.mark.parametrize("member", MEMBERS)
def test_every_package_asks_for_the_same_python(member: str) -> None:
    expected = read_toml("pyproject.toml")["project"]["requires-python"]
    assert read_toml(f"packages/{member}/pyproject.toml")["project"]["requires-python"] == expected


def test_the_imported_package_knows_its_version() -> None:
    assert dataset_rt.__version__ == CARGO_VERSION


def test_the_locked_crates_have_the_version_of_the_workspace() -> None:
    ours = {
        package["name"]: package["version"]
        for package in read_toml("Cargo.lock")["package"]
        if package["name"].startswith("dataset-rt")
    }
    assert set(ours.values()) == {CARGO_VERSION}
