"""Runs uv, unpacks source archives and runs the interpreter of an installed environment."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_uv(*arguments: str | Path, **variables: str) -> str:
    """Run uv in the repository root and return what it prints; a failure shows its output."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.fail("no uv: run the tests by `make test` or `uv run pytest`")
    inherited = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    completed = subprocess.run(
        [uv, *arguments],
        cwd=ROOT,
        env=inherited | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, f"uv {arguments}\n{completed.stdout}\n{completed.stderr}"
    return completed.stdout


@dataclass(frozen=True)
class Distributions:
    """The built archives, by distribution name."""

    wheels: Mapping[str, Path]
    source_archives: Mapping[str, Path]


@dataclass(frozen=True)
class Environment:
    """A virtual environment that holds what one ``uv pip install`` put into it."""

    folder: Path

    def run(self, *arguments: str | Path, working_directory: Path) -> str:
        """Run its interpreter outside the repository and return standard output."""
        completed = subprocess.run(
            [self.folder / "bin" / "python", *arguments],
            cwd=working_directory,
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, f"{arguments}\n{completed.stdout}\n{completed.stderr}"
        return completed.stdout

    def installed(self) -> set[str]:
        """Return the names of the installed distributions."""
        lines = run_uv("pip", "freeze", "--python", self.folder).splitlines()
        return {line.partition(" @ ")[0].partition("==")[0] for line in lines}


def only_match(folder: Path, pattern: str) -> Path:
    """Return the one file in ``folder`` that matches ``pattern``."""
    (path,) = folder.glob(pattern)
    return path


def mirror_archive(archive: Path, folder: Path) -> None:
    """Make ``folder`` hold what the archive holds, with time stamps that cargo can trust.

    Cargo compares time stamps to tell whether it has compiled a file, and an archive carries one
    constant stamp for all. A file that is the same here gets the stamp it has here, so that what
    was compiled here is used again; any other file that differs from before counts as new.
    """
    kept = set()
    with tarfile.open(archive) as members:
        for member in members:
            extracted = members.extractfile(member)
            if extracted is None:
                continue
            path = folder.joinpath(*Path(member.name).parts[1:])
            kept.add(path)
            content = extracted.read()
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            original = ROOT / path.relative_to(folder)
            if original.is_file() and original.read_bytes() == content:
                stamp_nanoseconds = original.stat().st_mtime_ns
                os.utime(path, ns=(stamp_nanoseconds, stamp_nanoseconds))
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()
