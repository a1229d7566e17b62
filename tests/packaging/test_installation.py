"""What a user has after ``pip install dataset-rt``, with and without the extras."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment, run_uv

WITHOUT_TORCH = Path(__file__).parent / "without_torch.py"


@pytest.fixture(scope="module")
def plain(install: Callable[..., Environment]) -> Environment:
    """Return an environment made by ``pip install dataset-rt``."""
    return install()


@pytest.fixture(scope="module")
def with_torch(install: Callable[..., Environment]) -> Environment:
    """Return an environment made by ``pip install "dataset-rt[torch]"``."""
    return install("torch")


@pytest.fixture(scope="module")
def report_without_torch(
    plain: Environment, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    """Return what the program ``without_torch.py`` found in the plain environment."""
    output = plain.run(WITHOUT_TORCH, working_directory=tmp_path_factory.mktemp("without_torch"))
    report: dict[str, object] = json.loads(output)
    return report


def test_the_plain_installation_holds_only_the_core(plain: Environment) -> None:
    installed = plain.installed()
    assert {name for name in installed if name.startswith("dataset-rt")} == {
        "dataset-rt",
        "dataset-rt-core",
    }
    assert "torch" not in installed


def test_the_plain_installation_writes_and_reads(report_without_torch: dict[str, object]) -> None:
    assert report_without_torch["payloads"] == ["0", "1", "2", "3", "4", "5", "6", "7"]


def test_the_plain_installation_draws_by_weight(report_without_torch: dict[str, object]) -> None:
    assert report_without_torch["drawn_rows"] == [2, 5]


def test_without_torch_the_loader_names_the_extra(report_without_torch: dict[str, object]) -> None:
    assert report_without_torch["error_type"] == "ImportError"
    assert 'pip install "dataset-rt[torch]"' in str(report_without_torch["error_message"])


def test_the_torch_extra_runs_the_example_of_the_guide(
    with_torch: Environment, tmp_path: Path
) -> None:
    output = with_torch.run(ROOT / "examples" / "train_cached.py", working_directory=tmp_path)
    assert output.splitlines() == ["torch.Size([8, 2]) torch.Size([8])"] * 4


def test_the_bench_extra_installs_its_command(
    install: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = install("bench")
    output = environment.run(
        environment.folder / "bin" / "dataset-rt-bench", "--help", working_directory=tmp_path
    )
    assert "usage: dataset-rt-bench" in output


def test_the_cli_extra_makes_the_command_work(
    install: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = install("cli")
    output = environment.run(
        environment.folder / "bin" / "dataset-rt", "info", tmp_path, working_directory=tmp_path
    )
    assert output == f"{tmp_path}: 0 entries\n"


def test_without_the_cli_extra_the_command_names_it(plain: Environment, tmp_path: Path) -> None:
    completed = subprocess.run(
        [plain.folder / "bin" / "dataset-rt", "info", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert completed.stderr == (
        "error: the command line needs typer, which is not installed\n"
        'hint: pip install "dataset-rt[cli]"\n'
    )


@pytest.mark.parametrize(
    "extras", [(), ("torch",), ("bench",), ("cli",)], ids=lambda extras: "+".join(extras) or "none"
)
def test_the_requirements_of_every_wheel_are_met(
    install: Callable[..., Environment], extras: tuple[str, ...]
) -> None:
    run_uv("pip", "check", "--python", install(*extras).folder)
