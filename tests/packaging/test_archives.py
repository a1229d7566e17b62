"""What the wheels and source archives hold."""

import email.message
import email.parser
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Distributions

NAMES = ("dataset-rt", "dataset-rt-bench", "dataset-rt-core", "dataset-rt-torch")
IMPORT_PACKAGES = {
    "dataset-rt-bench": "dataset_rt_bench",
    "dataset-rt-core": "dataset_rt",
    "dataset-rt-torch": "dataset_rt_torch",
}


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.BytesParser().parsebytes(archive.read(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_holds_one_import_package_at_most(distributions: Distributions, name: str) -> None:
    top_level = {
        entry.partition("/")[0]
        for entry in names_in(distributions.wheels[name])
        if ".dist-info/" not in entry and ".data/" not in entry
    }
    assert top_level == ({IMPORT_PACKAGES[name]} if name in IMPORT_PACKAGES else set())


@pytest.mark.parametrize("name", sorted(IMPORT_PACKAGES))
def test_a_wheel_tells_type_checkers_that_it_is_typed(
    distributions: Distributions, name: str
) -> None:
    assert f"{IMPORT_PACKAGES[name]}/py.typed" in names_in(distributions.wheels[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_carries_both_licence_texts(distributions: Distributions, name: str) -> None:
    with zipfile.ZipFile(distributions.wheels[name]) as archive:
        for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
            (path,) = (
                entry for entry in archive.namelist() if entry.endswith(f"/licenses/{licence}")
            )
            assert archive.read(path) == (ROOT / licence).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_has_a_readme_and_a_summary(distributions: Distributions, name: str) -> None:
    metadata = metadata_of(distributions.wheels[name])
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert metadata["Summary"]
    readme = str(metadata.get_payload())
    assert f"# {name}" in readme
    assert len(readme) > 200


def test_one_native_wheel_serves_every_python_from_3_11(distributions: Distributions) -> None:
    wheel = distributions.wheels["dataset-rt-core"]
    assert "-cp311-abi3-" in wheel.name
    assert "dataset_rt/_core.abi3.so" in names_in(wheel)


def test_the_source_archive_of_the_core_locks_its_crates(distributions: Distributions) -> None:
    with tarfile.open(distributions.source_archives["dataset-rt-core"]) as archive:
        names = {
            Path(name).relative_to(Path(name).parts[0]).as_posix() for name in archive.getnames()
        }
    assert "Cargo.lock" in names
    crates = {path.name for path in (ROOT / "crates").iterdir() if path.is_dir()}
    assert {f"crates/{crate}/src/lib.rs" for crate in crates} <= names
