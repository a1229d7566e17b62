"""Builds the four distributions once and installs them into empty environments on request."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.packaging.environments import (
    ROOT,
    Distributions,
    Environment,
    mirror_archive,
    only_match,
    run_uv,
)

# Below target/, because a target folder can be thrown away at any time and lies on the file system
# of .venv: uv then hard-links what its cache holds instead of copying gigabytes.
WORK_FOLDER = ROOT / "target" / "packaging"
PURE_DISTRIBUTIONS = ("dataset-rt", "dataset-rt-bench", "dataset-rt-torch")
DISTRIBUTIONS = (*PURE_DISTRIBUTIONS, "dataset-rt-core")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder the time that a release build may take."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Build a source archive of each distribution, and from that archive its wheel."""
    output = tmp_path_factory.mktemp("distributions")
    for name in PURE_DISTRIBUTIONS:
        run_uv("build", "--quiet", "--package", name, "--out-dir", output, "--no-sources")
    run_uv("build", "--quiet", "--package", "dataset-rt-core", "--sdist", "--out-dir", output)
    # Built in one folder that stays, with the target folder of the repository, so that what the
    # editable install compiled is used again.
    source = WORK_FOLDER / "dataset-rt-core"
    mirror_archive(only_match(output, "dataset_rt_core-*.tar.gz"), source)
    run_uv(
        "build",
        "--quiet",
        "--wheel",
        source,
        "--out-dir",
        output,
        CARGO_TARGET_DIR=str(ROOT / "target"),
    )
    return Distributions(
        wheels={
            name: only_match(output, f"{name.replace('-', '_')}-*.whl") for name in DISTRIBUTIONS
        },
        source_archives={
            name: only_match(output, f"{name.replace('-', '_')}-*.tar.gz") for name in DISTRIBUTIONS
        },
    )


@pytest.fixture(scope="session")
def locked_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the locked version of every third-party package as a constraints file."""
    path = tmp_path_factory.mktemp("constraints") / "locked.txt"
    path.write_text(
        run_uv(
            "export", "--quiet", "--frozen", "--all-packages", "--no-emit-workspace", "--no-hashes"
        )
    )
    return path


@pytest.fixture(scope="session")
def install(
    distributions: Distributions, locked_versions: Path
) -> Iterator[Callable[..., Environment]]:
    """Return a function that installs ``dataset-rt`` with some extras into a new environment.

    Our wheels are given by path, so no index is asked for their names; all else comes in the locked
    version.
    """
    folder = WORK_FOLDER / "environments"
    shutil.rmtree(folder, ignore_errors=True)

    def install_with(*extras: str) -> Environment:
        environment = folder / "-".join(["dataset-rt", *extras])
        if not environment.exists():
            run_uv("venv", "--quiet", "--python", sys.executable, environment)
            requirement = f"dataset-rt[{','.join(extras)}]" if extras else "dataset-rt"
            needed = {
                "dataset-rt-core",
                *(["dataset-rt-torch"] if extras else []),
                *(["dataset-rt-bench"] if "bench" in extras else []),
            }
            run_uv(
                "pip",
                "install",
                "--quiet",
                "--python",
                environment,
                "--constraint",
                locked_versions,
                f"{requirement} @ {distributions.wheels['dataset-rt'].as_uri()}",
                *(distributions.wheels[name] for name in sorted(needed)),
            )
        return Environment(environment)

    yield install_with
    shutil.rmtree(folder, ignore_errors=True)
