"""The asv suite can be discovered, and its configuration builds what it measures."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from asv.config import Config  # type: ignore[import-untyped]

from dataset_rt_bench.asv_adapter import RECORD_WORKLOADS, CaseBenchmark, parameters
from dataset_rt_bench.cases.contender import Case, Contender
from dataset_rt_bench.cases.registry import CASES
from dataset_rt_bench.unavailable import UnavailableError

ROOT = Path(__file__).parents[2]


def test_configuration_is_valid() -> None:
    config = Config.load(str(ROOT / "asv.conf.json"))
    assert (ROOT / config.benchmark_dir / "__init__.py").is_file()
    assert config.environment_type == "virtualenv"


def test_each_case_has_a_history() -> None:
    folder = ROOT / "packages" / "dataset-rt-bench" / "benchmarks"
    timed = {
        found.case.name
        for path in folder.glob("bench_*.py")
        for found in runpy.run_path(str(path)).values()
        if isinstance(found, type) and issubclass(found, CaseBenchmark) and hasattr(found, "case")
    }
    # A sweep is the work of other cases over more sizes.
    assert timed >= {name for name, case in CASES.items() if case.scale != "size_sweep"}


def test_a_history_holds_no_library_of_others() -> None:
    contenders, _ = parameters(CASES["iterate"])
    assert contenders == ["dataset_rt", "numpy array", "numpy memmap", "lmdb"]


def test_a_contender_that_is_not_available_is_left_out(
    tmp_path: Path,
) -> None:
    def missing(*_: object) -> Contender:
        raise UnavailableError("the page cache keeps it")

    class Cold(CaseBenchmark):
        case = Case("cold", "a question", "items", "record_size", "one", {"one": missing})

    with pytest.raises(NotImplementedError, match="the page cache keeps it"):
        Cold().setup(str(tmp_path), "one", next(iter(RECORD_WORKLOADS)))


def test_asv_accepts_all_benchmarks() -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "asv", "check", "-E", "existing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "No problems found" in completed.stdout
